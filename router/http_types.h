// What HTTP handlers see of HTTP: a request, and an exchange that answers it. No Boost here.
//
// All of it lives on the router's one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::router {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpHead {
  std::string method;
  std::string path;  // without the query
  std::string content_type, authorization, request_id;
};

struct HttpRequest : HttpHead {
  std::string body;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  HttpHeaders headers;
};

// The answer to one request. Either respond() once, or start_stream(), stream() ..., end_stream(). Calls
// after the client has gone do nothing, so that owners need not check.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  virtual void respond(HttpResponse response) = 0;
  virtual void start_stream(const std::string& content_type, const HttpHeaders& headers) = 0;
  virtual void stream(std::string_view data) = 0;
  virtual void end_stream() = 0;
  // Called at most once, never from inside a call of this interface: the client closed, or read too slowly
  // and was dropped. Not called after the answer is complete.
  virtual void on_gone(std::function<void()> callback) = 0;
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Before the body is read: an answer that needs none of it (404, 405, 401, 415), or nothing.
  virtual std::optional<HttpResponse> check_head(const HttpHead& head) = 0;
  virtual void handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) = 0;
  // An answer's status line has been given out; for counting.
  virtual void answered(const HttpHead&, int /*status*/) {}
};

}  // namespace penstock::router
