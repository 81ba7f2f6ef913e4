#include "router/http_text.h"

#include <algorithm>
#include <cstdio>

namespace penstock::router {
namespace {

constexpr size_t kHeaderTextMax = 256;

const char* reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 413:
      return "Payload Too Large";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    default:
      return "Unknown";
  }
}

std::string head_text(int status, const std::string& content_type, const HttpHeaders& headers,
                      bool keep_alive) {
  std::string text = "HTTP/1.1 " + std::to_string(status) + ' ' + reason_phrase(status) + "\r\n";
  text += "content-type: " + content_type + "\r\n";
  for (const auto& [name, value] : headers) text += name + ": " + value + "\r\n";
  text += keep_alive ? "connection: keep-alive\r\n" : "connection: close\r\n";
  return text;
}

}  // namespace

std::string response_text(const HttpResponse& response, bool keep_alive, bool head_only) {
  std::string text = head_text(response.status, response.content_type, response.headers, keep_alive);
  text += "content-length: " + std::to_string(response.body.size()) + "\r\n\r\n";
  if (!head_only) text += response.body;
  return text;
}

std::string stream_head_text(const std::string& content_type, const HttpHeaders& headers, bool keep_alive,
                             bool chunked) {
  std::string text = head_text(200, content_type, headers, keep_alive);
  text += "cache-control: no-cache\r\nx-accel-buffering: no\r\n";  // proxies must pass events on at once
  if (chunked) text += "transfer-encoding: chunked\r\n";
  return text + "\r\n";
}

std::string chunk_text(std::string_view data) {
  char size[24];
  const int length = std::snprintf(size, sizeof(size), "%zx\r\n", data.size());
  std::string text(size, static_cast<size_t>(length));
  text += data;
  return text += "\r\n";
}

bool is_header_text(std::string_view text) {
  return !text.empty() && text.size() <= kHeaderTextMax &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

}  // namespace penstock::router
