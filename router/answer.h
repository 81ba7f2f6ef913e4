// The answer to one generation request: collects its choices and writes them to the HTTP exchange, streaming
// or whole.
//
// One per request, on the router's thread. The status line goes out with the first token, so that whatever
// fails before it still gets an honest status. After fail() or the end of all choices it is complete and
// inert.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "router/api_error.h"
#include "router/choice_text.h"
#include "router/http_types.h"
#include "router/openai_json.h"

namespace penstock::router {

struct AnswerSpec {
  AnswerHeader header;
  GenerationOptions options;
  std::vector<std::vector<TokenId>> prompts;  // each with options.choices choices
  HttpHeaders headers;                        // x-request-id
};

class Answer {
 public:
  Answer(AnswerSpec spec, const Tokenizer& tokenizer, std::shared_ptr<HttpExchange> exchange);

  size_t choice_count() const { return choices_.size(); }
  const std::vector<TokenId>& prompt_of(size_t choice) const;
  const AnswerSpec& spec() const { return spec_; }
  HttpExchange& exchange() { return *exchange_; }

  // True when a stop string ended the choice; end() is still to follow.
  bool push(size_t choice, GeneratedToken token);
  // finish_reason: "stop" or "length".
  void end(size_t choice, const char* finish_reason);
  // Everything ends: an error response, or after the headers an error event.
  void fail(const ApiError& error);

  // A comment, for a client that asked for one when nothing comes for long. Sends the headers if need be.
  void keep_alive();

  bool complete() const { return complete_; }
  int64_t completion_tokens() const;

 private:
  struct Choice {
    ChoiceText text;
    TextDelta whole;  // not streaming: all so far
    bool started = false, ended = false;
    const char* finish_reason = nullptr;
  };

  void send_headers();
  void send_role(size_t index);
  void send_chunk(size_t index, const TextDelta* delta, const char* finish_reason, bool with_role);
  void send_event(const Json& json);
  void finish_all();
  ChoicePart part_of(size_t index) const;
  Usage usage() const;

  AnswerSpec spec_;
  const Tokenizer& tokenizer_;
  std::shared_ptr<HttpExchange> exchange_;
  std::vector<Choice> choices_;
  size_t open_choices_;
  bool headers_sent_ = false, complete_ = false;
};

// The bytes of one server-sent event.
std::string sse_event(std::string_view data);

}  // namespace penstock::router
