// One HTTP connection: reads requests, hands them to the handler, writes the answers. Private to the server.
//
// Includes Boost (slow to compile): only http_server.cc and http_connection.cc include this.
#pragma once

#include <utility>  // Boost 1.74's coroutines need it first

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <functional>
#include <memory>
#include <string>

#include "router/http_server.h"

namespace penstock::router {

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(boost::asio::ip::tcp::socket socket, std::shared_ptr<HttpServerState> state);
  ~HttpConnection();
  static void spawn(std::shared_ptr<HttpConnection> self);

  // The server drains: an idle connection closes now.
  void close_if_idle();

 private:
  friend class ConnectionExchange;
  enum class Read : uint8_t { kRequest, kAnswered, kClosed };

  boost::asio::awaitable<void> run();
  boost::asio::awaitable<Read> read_request(HttpRequest& request);
  boost::asio::awaitable<void> refuse(const HttpHead& head, HttpResponse response);
  boost::asio::awaitable<void> write_answer();
  boost::asio::awaitable<bool> write_all(std::string data);
  boost::asio::awaitable<void> watch();
  boost::asio::awaitable<void> stop_watching();

  void append(std::string_view data);
  void complete();
  void lose();  // the client is gone, or is given up
  void set_deadline(Duration after);
  void clear_deadline();

  boost::asio::ip::tcp::socket socket_;
  std::shared_ptr<HttpServerState> state_;
  boost::asio::steady_timer wake_;      // cancelled when the writer has something to look at
  boost::asio::steady_timer deadline_;  // closes the socket when it fires
  boost::beast::flat_buffer buffer_;    // read and not yet consumed
  std::string output_;                  // made and not yet written
  size_t writing_ = 0;                  // bytes of the write under way
  uint64_t exchange_no_ = 0;            // answers of earlier exchanges are ignored
  std::function<void()> on_gone_;
  bool keep_alive_ = true, http10_ = false;
  bool idle_ = false, answering_ = false, watching_ = false, gone_ = false;
};

}  // namespace penstock::router
