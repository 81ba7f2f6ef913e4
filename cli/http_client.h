// A small blocking HTTP/1.1 client for talking to our own router: one request a connection, bodies by length,
// chunks or until the end. No TLS, no redirects.
//
// Plain functions, usable from any thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "topology/cluster_config.h"

namespace penstock::cli {

struct HttpRequest {
  HostPort server;
  std::string method = "GET";
  std::string target = "/";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  Duration silence_max = Duration::from_ms(5000);  // between two pieces of the answer, and to connect
};

struct HttpResponse {
  int status = 0;
  std::string body;  // empty when a callback took it
};

// Gets the body of a 200 as it arrives, decoded.
using BodyCallback = std::function<void(std::string_view piece)>;

// kUnavailable: nobody listens, or the connection broke; kDeadlineExceeded: silence; kCorrupt: not HTTP.
[[nodiscard]] Result<HttpResponse> http_request(const HttpRequest& request, const BodyCallback& on_body = {});

// Decodes a body in chunks (RFC 9112, 7.1). Incremental: pieces may be cut anywhere.
class ChunkedDecoder {
 public:
  // Appends the decoded bytes to `out`.
  [[nodiscard]] Status feed(std::string_view piece, std::string& out);
  bool done() const { return state_ == State::kDone; }

 private:
  enum class State { kSize, kData, kDataEnd, kTrailer, kDone };
  State state_ = State::kSize;
  std::string line_;
  size_t left_ = 0;
};

}  // namespace penstock::cli
