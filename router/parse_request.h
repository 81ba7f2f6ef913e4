// JSON bodies to validated requests.
//
// A RequestParser keeps simdjson's buffers between requests; it belongs to the router's thread.
#pragma once

#include <simdjson.h>

#include <optional>
#include <string>
#include <variant>

#include "router/api_error.h"
#include "router/request.h"

namespace penstock::router {

template <typename T>
using Parsed = std::variant<T, ApiError>;

class RequestParser {
 public:
  Parsed<ChatRequest> chat(const std::string& body);
  Parsed<CompletionRequest> completion(const std::string& body);
  Parsed<TokenizeRequest> tokenize(const std::string& body);
  Parsed<DetokenizeRequest> detokenize(const std::string& body);

 private:
  // The body's object, valid until the next call; or what is wrong with it.
  std::variant<simdjson::dom::object, ApiError> object_of(const std::string& body);

  simdjson::dom::parser parser_;
};

}  // namespace penstock::router
