// One streamed turn against an OpenAI chat endpoint, with the times a user sees. Plain functions and values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "topology/cluster_config.h"

namespace penstock::cli {

struct ChatRequest {
  std::string model;
  std::vector<std::pair<std::string, std::string>> messages;  // role, content
  int64_t tokens_max = 0;                                     // 0: to the end of the context
  std::optional<double> temperature = {}, top_p = {};
  std::optional<int64_t> seed = {};
};

struct ChatAnswer {
  std::string id, text, finish_reason;
  int64_t prompt_tokens = 0, completion_tokens = 0;
  Duration ttft;   // request sent to first text
  Duration total;  // request sent to last text
  // Mean time between tokens after the first; 0 with fewer than two.
  double tpot_ms() const;
};

[[nodiscard]] std::string chat_request_json(const ChatRequest& request);

// What one event of the stream says; `text` is new text.
struct ChatEvent {
  std::string id, text, finish_reason, error;
  std::optional<std::pair<int64_t, int64_t>> usage;  // prompt, completion
};
[[nodiscard]] Result<ChatEvent> parse_chat_event(std::string_view json);
// The message inside an OpenAI error body, or the body.
[[nodiscard]] std::string error_text(std::string_view body);

// The id that the server gives its first model.
[[nodiscard]] Result<std::string> first_model(const HostPort& server, const std::string& api_key);

// `on_text` gets text as it arrives. An error of the server is a Failure with its message.
[[nodiscard]] Result<ChatAnswer> chat(const HostPort& server, const std::string& api_key,
                                      const ChatRequest& request, const Clock& clock,
                                      const std::function<void(std::string_view)>& on_text);

}  // namespace penstock::cli
