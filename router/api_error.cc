#include "router/api_error.h"

#include "router/json_text.h"

namespace penstock::router {

ApiError bad_field(std::string param, std::string message) {
  ApiError error;
  error.message = std::move(message);
  error.param = std::move(param);
  error.code = "invalid_value";
  return error;
}

ApiError unsupported_field(std::string param, std::string what) {
  ApiError error;
  error.message = param + ": " + what + " is not supported yet; leave it out";
  error.param = std::move(param);
  error.code = "unsupported_parameter";
  return error;
}

ApiError broken_body(std::string message) {
  ApiError error;
  error.message = std::move(message);
  error.code = "invalid_body";
  return error;
}

ApiError context_length_exceeded(int64_t context, int64_t prompt_tokens, std::string param) {
  ApiError error;
  error.message = "This model's maximum context length is " + std::to_string(context) +
                  " tokens. However, your " + param + " resulted in " + std::to_string(prompt_tokens) +
                  " tokens, and the completion needs at least 1 more. Please reduce the length of the " +
                  param + ".";
  error.param = std::move(param);
  error.code = "context_length_exceeded";
  return error;
}

ApiError model_not_found(std::string_view model) {
  return {404,
          "The model `" + std::string(model) + "` does not exist; GET /v1/models lists what is served.",
          "invalid_request_error",
          "model",
          "model_not_found",
          0,
          std::string(model)};
}

ApiError invalid_api_key() {
  return {401,
          "Incorrect or missing API key; send it as `Authorization: Bearer KEY`.",
          "invalid_request_error",
          "",
          "invalid_api_key",
          0};
}

ApiError method_not_allowed(std::string_view method, std::string_view path) {
  return {405,
          "Method " + std::string(method) + " is not allowed for " + std::string(path) + ".",
          "invalid_request_error",
          "",
          "method_not_allowed",
          0};
}

ApiError path_not_found(std::string_view method, std::string_view path) {
  return {404,
          "Unknown path: " + std::string(method) + " " + std::string(path) + ".",
          "invalid_request_error",
          "",
          "not_found",
          0};
}

ApiError body_too_large(size_t bytes_max) {
  return {413,
          "The request body is larger than " + std::to_string(bytes_max) + " bytes.",
          "invalid_request_error",
          "",
          "request_too_large",
          0};
}

ApiError unsupported_media_type(std::string_view content_type) {
  return {415,
          "Content-Type must be application/json, not `" + std::string(content_type) + "`.",
          "invalid_request_error",
          "",
          "unsupported_media_type",
          0};
}

ApiError overloaded(std::string message, int retry_after_s) {
  return {429, std::move(message), "rate_limit_error", "", "overloaded", retry_after_s};
}

ApiError unavailable(std::string message, int retry_after_s) {
  return {503, std::move(message), "service_unavailable_error", "", "service_unavailable", retry_after_s};
}

ApiError internal_error(std::string message) {
  return {500, std::move(message), "server_error", "", "internal_error", 0};
}

std::string error_json(const ApiError& error) {
  const auto text_or_null = [](const std::string& s) { return s.empty() ? Json(nullptr) : Json(s); };
  return dump(Json{{"error",
                    {{"message", error.message},
                     {"type", error.type},
                     {"param", text_or_null(error.param)},
                     {"code", text_or_null(error.code)}}}});
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response;
  response.status = error.status;
  response.body = error_json(error);
  if (error.retry_after_s > 0)
    response.headers.emplace_back("retry-after", std::to_string(error.retry_after_s));
  if (error.status == 401) response.headers.emplace_back("www-authenticate", "Bearer");
  return response;
}

}  // namespace penstock::router
