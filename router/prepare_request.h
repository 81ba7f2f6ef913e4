// From a body to all that is needed to answer it: parsed, validated, checked against the model, tokenised.
//
// A RequestPreparer belongs to one thread; large bodies are prepared by a second one on a worker thread, so
// that tokenising megabytes does not hold up other clients' tokens.
#pragma once

#include <string>
#include <variant>

#include "router/answer.h"
#include "router/parse_request.h"
#include "router/served_model.h"
#include "router/tokenize_request.h"

namespace penstock::router {

struct PreparedRequest {
  GenerationOptions options;
  std::vector<std::vector<TokenId>> prompts;
};

class RequestPreparer {
 public:
  explicit RequestPreparer(ServedModel model) : model_(std::move(model)) {}
  Parsed<PreparedRequest> prepare(Endpoint endpoint, const std::string& body);
  Parsed<Json> tokenize(const std::string& body) { return tokenize_request(body, parser_, model_); }
  Parsed<Json> detokenize(const std::string& body) { return detokenize_request(body, parser_, model_); }

 private:
  Parsed<PreparedRequest> prepare_chat(const std::string& body);
  Parsed<PreparedRequest> prepare_completion(const std::string& body);
  // Model name and context; nothing when all is well.
  std::optional<ApiError> check_model(const GenerationOptions& options) const;
  std::optional<ApiError> check_context(const std::vector<TokenId>& ids, const char* param) const;

  ServedModel model_;
  RequestParser parser_;
};

}  // namespace penstock::router
