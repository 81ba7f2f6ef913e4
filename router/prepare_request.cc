#include "router/prepare_request.h"

namespace penstock::router {

Parsed<PreparedRequest> RequestPreparer::prepare(Endpoint endpoint, const std::string& body) {
  return endpoint == Endpoint::kChat ? prepare_chat(body) : prepare_completion(body);
}

Parsed<PreparedRequest> RequestPreparer::prepare_chat(const std::string& body) {
  auto parsed = parser_.chat(body);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  ChatRequest& request = std::get<ChatRequest>(parsed);
  if (auto error = check_model(request.options)) return std::move(*error);
  PromptIds ids = model_.chat_ids(request.messages);
  if (auto* error = std::get_if<ApiError>(&ids)) return std::move(*error);
  PreparedRequest prepared;
  prepared.prompts.push_back(std::move(std::get<std::vector<TokenId>>(ids)));
  if (auto error = check_context(prepared.prompts[0], "messages")) return std::move(*error);
  prepared.options = std::move(request.options);
  return prepared;
}

Parsed<PreparedRequest> RequestPreparer::prepare_completion(const std::string& body) {
  auto parsed = parser_.completion(body);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  CompletionRequest& request = std::get<CompletionRequest>(parsed);
  if (auto error = check_model(request.options)) return std::move(*error);
  PreparedRequest prepared;
  for (const Prompt& prompt : request.prompts) {
    PromptIds ids = model_.prompt_ids(prompt);
    if (auto* error = std::get_if<ApiError>(&ids)) return std::move(*error);
    prepared.prompts.push_back(std::move(std::get<std::vector<TokenId>>(ids)));
    if (auto error = check_context(prepared.prompts.back(), "prompt")) return std::move(*error);
  }
  prepared.options = std::move(request.options);
  return prepared;
}

std::optional<ApiError> RequestPreparer::check_model(const GenerationOptions& options) const {
  if (!options.model || *options.model == model_.name()) return std::nullopt;
  return model_not_found(*options.model);
}

std::optional<ApiError> RequestPreparer::check_context(const std::vector<TokenId>& ids,
                                                       const char* param) const {
  const auto tokens = static_cast<int64_t>(ids.size());
  if (tokens < model_.context_max()) return std::nullopt;
  return context_length_exceeded(model_.context_max(), tokens, param);
}

}  // namespace penstock::router
