// Errors as OpenAI's clients read them: {"error": {"message", "type", "param", "code"}} and a status.
//
// Plain values and pure functions.
#pragma once

#include <string>
#include <string_view>

#include "router/http_types.h"

namespace penstock::router {

struct ApiError {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param;       // empty: null
  std::string code;        // empty: null
  int retry_after_s = 0;   // > 0: a Retry-After header
  std::string value = {};  // what the client asked for, where that is counted; not shown
};

// 400 that names the field.
ApiError bad_field(std::string param, std::string message);
// A known field that this version does not carry out.
ApiError unsupported_field(std::string param, std::string what);
ApiError broken_body(std::string message);
ApiError context_length_exceeded(int64_t context, int64_t prompt_tokens, std::string param);
ApiError model_not_found(std::string_view model);
ApiError invalid_api_key();
ApiError method_not_allowed(std::string_view method, std::string_view path);
ApiError path_not_found(std::string_view method, std::string_view path);
ApiError body_too_large(size_t bytes_max);
ApiError unsupported_media_type(std::string_view content_type);
ApiError overloaded(std::string message, int retry_after_s);   // 429
ApiError unavailable(std::string message, int retry_after_s);  // 503
ApiError internal_error(std::string message);                  // 500

std::string error_json(const ApiError& error);
HttpResponse error_response(const ApiError& error);

}  // namespace penstock::router
