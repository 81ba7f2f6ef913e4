// An HTTP/1.1 server: accepts connections and runs one coroutine for each.
//
// Lives on the thread that runs the io_context. Keep-alive and pipelined requests are answered in order; a
// client that goes away is noticed while its answer is being made; one that reads too slowly is dropped once
// too much waits for it. Boost stays in the .cc files.
#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "router/http_types.h"

namespace boost::asio {
class io_context;
}

namespace penstock::router {

struct HttpLimits {
  size_t head_bytes_max = 64u << 10;
  size_t body_bytes_max = 32u << 20;
  size_t output_bytes_max = 8u << 20;             // waiting for one client; above it the client is dropped
  size_t pipelined_bytes_max = 64u << 10;         // read ahead while an answer is being made
  Duration idle_max = Duration::from_ms(75000);   // between requests
  Duration head_max = Duration::from_ms(20000);   // from the first byte to the end of the head
  Duration body_max = Duration::from_ms(120000);  // from the head to the end of the body
  Duration write_max = Duration::from_ms(30000);  // for one write to a client that does not read
};

class HttpConnection;

// What the connections of one server share.
struct HttpServerState {
  HttpHandler& handler;
  HttpLimits limits;
  std::set<HttpConnection*> connections;
  bool draining = false;
};

class HttpServer {
 public:
  // "host:port"; port 0 takes a free one. Errors name the address, the reason and what to do.
  static Result<std::unique_ptr<HttpServer>> listen(boost::asio::io_context& io, const std::string& host,
                                                    uint16_t port, HttpHandler& handler, HttpLimits limits);
  ~HttpServer();

  uint16_t port() const;
  // Closes idle connections; busy ones, and those that still come, close after their answer.
  void close_after_answers();
  // The same, and accepts no more.
  void drain();
  size_t connections() const { return state_->connections.size(); }

 private:
  struct Acceptor;
  HttpServer(std::unique_ptr<Acceptor> acceptor, std::shared_ptr<HttpServerState> state);

  std::unique_ptr<Acceptor> acceptor_;
  std::shared_ptr<HttpServerState> state_;
};

}  // namespace penstock::router
