// The bodies of answers: chat completions, text completions, their stream chunks, the model list.
//
// Pure functions; the order of members is fixed, so that bytes can be tested.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "router/choice_text.h"
#include "router/json_text.h"
#include "router/served_model.h"
#include "router/unsupported_fields.h"

namespace penstock::router {

// The same on every chunk of one answer.
struct AnswerHeader {
  Endpoint endpoint = Endpoint::kChat;
  std::string id;
  int64_t created = 0;  // Unix time, s
  std::string model;
};

struct Usage {
  int64_t prompt_tokens = 0, completion_tokens = 0;
};

// What one choice adds to an answer; of a stream chunk, or of the whole.
struct ChoicePart {
  int32_t index = 0;
  const TextDelta* delta = nullptr;     // nullptr: nothing
  const char* finish_reason = nullptr;  // nullptr: null
  bool with_role = false;               // chat streams: the first chunk of a choice
  bool with_logprobs = false, with_ids = false;
  const std::vector<TokenId>* prompt_ids = nullptr;  // shown where not nullptr
};

Json chunk_json(const AnswerHeader& header, const ChoicePart& part, const Tokenizer& tokenizer);
Json usage_chunk_json(const AnswerHeader& header, const Usage& usage);
Json whole_json(const AnswerHeader& header, const std::vector<ChoicePart>& parts, const Usage& usage,
                const Tokenizer& tokenizer);
Json usage_json(const Usage& usage);
Json model_list_json(const ServedModel& model, int64_t created);

// Minus infinity and not-a-number have no JSON: -9999.0 stands for them.
double json_logprob(float logprob);

}  // namespace penstock::router
