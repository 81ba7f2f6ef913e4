// A generation request as the client asked for it, validated; no model has been consulted yet.
//
// Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"

namespace penstock::router {

struct SamplingOptions {
  double temperature = 1;  // [0, 2]; 0: greedy
  double top_p = 1;        // (0, 1]
  double min_p = 0;        // [0, 1]
  int32_t top_k = 0;       // 0: all
  std::optional<int64_t> seed;
};

// The fields that both endpoints share.
struct GenerationOptions {
  std::optional<std::string> model;
  SamplingOptions sampling;
  int32_t choices = 1;                // n
  std::optional<int64_t> tokens_max;  // >= 1; absent: the endpoint's default
  std::vector<std::string> stop;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool logprobs = false;
  int32_t top_logprobs = 0;
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  bool return_token_ids = false;
  int32_t keep_alive_s = 0;         // > 0: a comment on a stream that was silent for so long
  std::string unknown_fields = {};  // the first few that nothing here reads, for the log
  std::string request_id;           // the client's name for it: echoed, never an identity of ours
};

struct ChatMessage {
  std::string role;
  std::string content;  // parts are joined by newlines; null is empty
  std::optional<std::string> name;
};

struct ChatRequest {
  GenerationOptions options;
  std::vector<ChatMessage> messages;
};

using Prompt = std::variant<std::string, std::vector<TokenId>>;

struct CompletionRequest {
  GenerationOptions options;
  std::vector<Prompt> prompts;
};

struct TokenizeRequest {
  std::optional<std::string> model;
  std::optional<std::string> prompt;  // else messages
  std::vector<ChatMessage> messages;
  bool add_special_tokens = true;  // of a prompt
  bool return_token_strs = false;
};

struct DetokenizeRequest {
  std::optional<std::string> model;
  std::vector<TokenId> tokens;
};

// Bounds of one request; beyond them it is refused by name.
inline constexpr int32_t kChoicesMax = 128;
inline constexpr size_t kPromptsMax = 1024;
inline constexpr size_t kSequencesMax = 1024;  // choices times prompts
inline constexpr int32_t kTopLogprobsMax = 20;
inline constexpr size_t kStopStringsMax = 16;
inline constexpr size_t kStopBytesMax = 4096;
inline constexpr int64_t kCompletionTokensDefault = 16;
inline constexpr int32_t kKeepAliveSecondsMax = 600;

}  // namespace penstock::router
