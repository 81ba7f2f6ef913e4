#include "router/tokenize_request.h"

namespace penstock::router {
namespace {

std::optional<ApiError> check_model(const std::optional<std::string>& wanted, const ServedModel& model) {
  if (!wanted || *wanted == model.name()) return std::nullopt;
  return model_not_found(*wanted);
}

}  // namespace

Parsed<Json> tokenize_request(const std::string& body, RequestParser& parser, ServedModel& model) {
  auto parsed = parser.tokenize(body);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const auto& request = std::get<TokenizeRequest>(parsed);
  if (auto error = check_model(request.model, model)) return std::move(*error);
  PromptIds ids = request.prompt ? model.text_ids(*request.prompt, request.add_special_tokens)
                                 : model.chat_ids(request.messages);
  if (auto* error = std::get_if<ApiError>(&ids)) return std::move(*error);
  const auto& tokens = std::get<std::vector<TokenId>>(ids);
  Json strings = nullptr;
  if (request.return_token_strs) {
    strings = Json::array();
    for (const TokenId token : tokens)
      strings.push_back(model.tokenizer().decode(std::span<const TokenId>(&token, 1)));
  }
  return Json{{"count", tokens.size()},
              {"max_model_len", model.context_max()},
              {"tokens", tokens},
              {"token_strs", std::move(strings)}};
}

Parsed<Json> detokenize_request(const std::string& body, RequestParser& parser, ServedModel& model) {
  auto parsed = parser.detokenize(body);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const auto& request = std::get<DetokenizeRequest>(parsed);
  if (auto error = check_model(request.model, model)) return std::move(*error);
  if (auto error = model.check_ids(request.tokens, "tokens")) return std::move(*error);
  return Json{{"prompt", model.tokenizer().decode(request.tokens)}};
}

}  // namespace penstock::router
