#include "router/answer.h"

namespace penstock::router {

std::string sse_event(std::string_view data) {
  std::string event = "data: ";
  event.reserve(event.size() + data.size() + 2);
  event += data;
  event += "\n\n";
  return event;
}

Answer::Answer(AnswerSpec spec, const Tokenizer& tokenizer, std::shared_ptr<HttpExchange> exchange)
    : spec_(std::move(spec)), tokenizer_(tokenizer), exchange_(std::move(exchange)) {
  const size_t count = spec_.prompts.size() * static_cast<size_t>(spec_.options.choices);
  for (size_t i = 0; i < count; ++i)
    choices_.push_back(Choice{ChoiceText(tokenizer_, spec_.options), {}, {}, {}, {}});
  open_choices_ = count;
}

const std::vector<TokenId>& Answer::prompt_of(size_t choice) const {
  return spec_.prompts[choice / static_cast<size_t>(spec_.options.choices)];
}

bool Answer::push(size_t index, GeneratedToken token) {
  Choice& choice = choices_[index];
  if (complete_ || choice.ended) return false;
  TextDelta delta;
  const bool stopped = choice.text.push(std::move(token), delta);
  if (!spec_.options.stream) {
    choice.whole.text += delta.text;
    for (ShownToken& shown : delta.tokens) choice.whole.tokens.push_back(std::move(shown));
    return stopped;
  }
  if (!choice.started) send_role(index);
  // A token without text is shown only to clients that asked for tokens.
  const bool shows_tokens = spec_.options.logprobs || spec_.options.return_token_ids;
  if (!delta.text.empty() || (shows_tokens && !delta.tokens.empty()))
    send_chunk(index, &delta, nullptr, false);
  return stopped;
}

void Answer::end(size_t index, const char* finish_reason) {
  Choice& choice = choices_[index];
  if (complete_ || choice.ended) return;
  choice.ended = true;
  choice.finish_reason = finish_reason;
  TextDelta rest;
  choice.text.finish(rest);
  if (spec_.options.stream) {
    if (!choice.started) send_role(index);
    // The finish chunk carries no content: held-back text goes before it, tokens without text with it.
    if (!rest.text.empty()) {
      send_chunk(index, &rest, nullptr, false);
      rest = {};
    }
    send_chunk(index, &rest, finish_reason, false);
  } else {
    choice.whole.text += rest.text;
    for (ShownToken& shown : rest.tokens) choice.whole.tokens.push_back(std::move(shown));
  }
  if (--open_choices_ == 0) finish_all();
}

void Answer::fail(const ApiError& error) {
  if (complete_) return;
  complete_ = true;
  if (!headers_sent_) {
    HttpResponse response = error_response(error);
    response.headers.insert(response.headers.end(), spec_.headers.begin(), spec_.headers.end());
    exchange_->respond(std::move(response));
    return;
  }
  exchange_->stream(sse_event(error_json(error)) + sse_event("[DONE]"));
  exchange_->end_stream();
}

int64_t Answer::completion_tokens() const {
  int64_t total = 0;
  for (const Choice& choice : choices_) total += choice.text.token_count();
  return total;
}

Usage Answer::usage() const {
  Usage usage;
  for (const auto& prompt : spec_.prompts) usage.prompt_tokens += static_cast<int64_t>(prompt.size());
  usage.completion_tokens = completion_tokens();
  return usage;
}

ChoicePart Answer::part_of(size_t index) const {
  ChoicePart part;
  part.index = static_cast<int32_t>(index);
  part.with_logprobs = spec_.options.logprobs;
  part.with_ids = spec_.options.return_token_ids;
  return part;
}

void Answer::keep_alive() {
  if (complete_ || !spec_.options.stream) return;
  send_headers();
  exchange_->stream(": keep-alive\n\n");
}

void Answer::send_headers() {
  if (headers_sent_) return;
  headers_sent_ = true;
  exchange_->start_stream("text/event-stream", spec_.headers);
}

void Answer::send_role(size_t index) {
  choices_[index].started = true;
  send_headers();
  if (spec_.header.endpoint == Endpoint::kChat) {
    send_chunk(index, nullptr, nullptr, true);
  } else if (spec_.options.return_token_ids) {
    send_chunk(index, nullptr, nullptr, true);  // carries the prompt's ids
  }
}

void Answer::send_chunk(size_t index, const TextDelta* delta, const char* finish_reason, bool with_role) {
  ChoicePart part = part_of(index);
  part.delta = delta;
  part.finish_reason = finish_reason;
  part.with_role = with_role;
  // Tokens that come with the finish chunk have no text; without them there is nothing to show.
  if (delta != nullptr && delta->empty()) part.with_logprobs = false;
  if (with_role && spec_.options.return_token_ids) part.prompt_ids = &prompt_of(index);
  Json json = chunk_json(spec_.header, part, tokenizer_);
  if (spec_.options.continuous_usage) json["usage"] = usage_json(usage());
  send_event(json);
}

void Answer::send_event(const Json& json) { exchange_->stream(sse_event(dump(json))); }

void Answer::finish_all() {
  complete_ = true;
  if (spec_.options.stream) {
    if (spec_.options.include_usage) send_event(usage_chunk_json(spec_.header, usage()));
    exchange_->stream(sse_event("[DONE]"));
    exchange_->end_stream();
    return;
  }
  std::vector<ChoicePart> parts;
  for (size_t i = 0; i < choices_.size(); ++i) {
    ChoicePart part = part_of(i);
    part.delta = &choices_[i].whole;
    part.finish_reason = choices_[i].finish_reason;
    if (spec_.options.return_token_ids) part.prompt_ids = &prompt_of(i);
    parts.push_back(part);
  }
  HttpResponse response;
  response.body = dump(whole_json(spec_.header, parts, usage(), tokenizer_));
  response.headers = spec_.headers;
  exchange_->respond(std::move(response));
}

}  // namespace penstock::router
