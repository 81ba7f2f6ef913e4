#include "router/openai_json.h"

#include <cmath>

namespace penstock::router {
namespace {

// Valid UTF-8, whatever the bytes are.
std::string lossy_text(const Tokenizer& tokenizer, TokenId token) {
  return tokenizer.decode(std::span<const TokenId>(&token, 1));
}

Json bytes_json(std::string_view bytes) {
  Json list = Json::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return list;
}

// {"content": [{token, logprob, bytes, top_logprobs}]}
Json chat_logprobs(const TextDelta& delta, const Tokenizer& tokenizer) {
  Json content = Json::array();
  for (const ShownToken& shown : delta.tokens) {
    Json top = Json::array();
    for (const Alternative& other : shown.generated.top) {
      top.push_back({{"token", lossy_text(tokenizer, other.token)},
                     {"logprob", json_logprob(other.logprob)},
                     {"bytes", bytes_json(tokenizer.token_bytes(other.token))}});
    }
    content.push_back({{"token", shown.piece},
                       {"logprob", json_logprob(shown.generated.logprob)},
                       {"bytes", bytes_json(tokenizer.token_bytes(shown.generated.token))},
                       {"top_logprobs", std::move(top)}});
  }
  return {{"content", std::move(content)}};
}

// {tokens, token_logprobs, top_logprobs, text_offset}, each a list over the tokens.
Json completion_logprobs(const TextDelta& delta, const Tokenizer& tokenizer) {
  Json tokens = Json::array(), logprobs = Json::array(), tops = Json::array(), offsets = Json::array();
  for (const ShownToken& shown : delta.tokens) {
    tokens.push_back(shown.piece);
    logprobs.push_back(json_logprob(shown.generated.logprob));
    Json top = Json::object();
    // Two tokens may have the same text; the likelier one comes first and stays. The sampled token is always
    // there.
    const auto add = [&](TokenId token, float logprob) {
      const std::string text = lossy_text(tokenizer, token);
      if (!top.contains(text)) top[text] = json_logprob(logprob);
    };
    for (const Alternative& other : shown.generated.top) add(other.token, other.logprob);
    add(shown.generated.token, shown.generated.logprob);
    tops.push_back(std::move(top));
    offsets.push_back(shown.text_offset);
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

void add_ids(Json& choice, const ChoicePart& part) {
  if (!part.with_ids) return;
  Json ids = Json::array();
  if (part.delta != nullptr) {
    for (const ShownToken& shown : part.delta->tokens) ids.push_back(shown.generated.token);
  }
  choice["token_ids"] = std::move(ids);
}

// logprobs and finish_reason, the tail that every choice has.
void add_tail(Json& choice, Endpoint endpoint, const ChoicePart& part, const Tokenizer& tokenizer) {
  choice["logprobs"] = nullptr;
  if (part.with_logprobs && part.delta != nullptr) {
    choice["logprobs"] = endpoint == Endpoint::kChat ? chat_logprobs(*part.delta, tokenizer)
                                                     : completion_logprobs(*part.delta, tokenizer);
  }
  choice["finish_reason"] = part.finish_reason == nullptr ? Json(nullptr) : Json(part.finish_reason);
  if (endpoint == Endpoint::kCompletions && part.prompt_ids != nullptr)
    choice["prompt_token_ids"] = *part.prompt_ids;
  add_ids(choice, part);
}

Json envelope(const AnswerHeader& header, const char* object) {
  return {{"id", header.id}, {"object", object}, {"created", header.created}, {"model", header.model}};
}

std::string_view text_of(const ChoicePart& part) {
  return part.delta == nullptr ? std::string_view() : std::string_view(part.delta->text);
}

}  // namespace

double json_logprob(float logprob) {
  constexpr double kMinusInfinity = -9999.0;
  return std::isfinite(logprob) ? static_cast<double>(logprob) : kMinusInfinity;
}

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", 0}}}};
}

Json chunk_json(const AnswerHeader& header, const ChoicePart& part, const Tokenizer& tokenizer) {
  const bool chat = header.endpoint == Endpoint::kChat;
  Json choice;
  choice["index"] = part.index;
  if (chat) {
    Json delta = Json::object();
    if (part.with_role) {
      delta = {{"role", "assistant"}, {"content", ""}};
    } else if (!text_of(part).empty() || part.finish_reason == nullptr) {
      delta["content"] = text_of(part);
    }
    choice["delta"] = std::move(delta);
  } else {
    choice["text"] = text_of(part);
  }
  add_tail(choice, header.endpoint, part, tokenizer);
  Json json = envelope(header, chat ? "chat.completion.chunk" : "text_completion");
  json["choices"] = Json::array({std::move(choice)});
  if (chat && part.prompt_ids != nullptr) json["prompt_token_ids"] = *part.prompt_ids;
  return json;
}

Json usage_chunk_json(const AnswerHeader& header, const Usage& usage) {
  Json json =
      envelope(header, header.endpoint == Endpoint::kChat ? "chat.completion.chunk" : "text_completion");
  json["choices"] = Json::array();
  json["usage"] = usage_json(usage);
  return json;
}

Json whole_json(const AnswerHeader& header, const std::vector<ChoicePart>& parts, const Usage& usage,
                const Tokenizer& tokenizer) {
  const bool chat = header.endpoint == Endpoint::kChat;
  Json choices = Json::array();
  for (const ChoicePart& part : parts) {
    Json choice;
    choice["index"] = part.index;
    if (chat) {
      choice["message"] = {{"role", "assistant"}, {"content", text_of(part)}};
    } else {
      choice["text"] = text_of(part);
    }
    add_tail(choice, header.endpoint, part, tokenizer);
    choices.push_back(std::move(choice));
  }
  Json json = envelope(header, chat ? "chat.completion" : "text_completion");
  json["choices"] = std::move(choices);
  json["usage"] = usage_json(usage);
  if (chat && !parts.empty() && parts[0].prompt_ids != nullptr)
    json["prompt_token_ids"] = *parts[0].prompt_ids;
  return json;
}

Json model_list_json(const ServedModel& model, int64_t created) {
  return {{"object", "list"},
          {"data", Json::array({{{"id", model.name()},
                                 {"object", "model"},
                                 {"created", created},
                                 {"owned_by", "penstock"},
                                 {"root", model.name()},
                                 {"max_model_len", model.context_max()}}})}};
}

}  // namespace penstock::router
