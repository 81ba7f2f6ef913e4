#include <utility>  // Boost 1.74's coroutines need it first

#include "router/http_server.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "router/http_connection.h"

namespace penstock::router {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

struct HttpServer::Acceptor {
  std::shared_ptr<tcp::acceptor> socket;
};

namespace {

// Out of file descriptors: connections that end free some.
constexpr Duration kAcceptPause = Duration::from_ms(100);

// Keeps the acceptor alive: it outlasts the server by the turn in which its last operation is cancelled.
asio::awaitable<void> accept_all(std::shared_ptr<tcp::acceptor> acceptor,
                                 std::shared_ptr<HttpServerState> state) {
  while (acceptor->is_open()) {
    error_code error;
    tcp::socket socket = co_await acceptor->async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (!acceptor->is_open() || error == asio::error::operation_aborted) break;
    if (error) {
      asio::steady_timer pause(acceptor->get_executor());
      pause.expires_after(kAcceptPause.chrono());
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      continue;
    }
    HttpConnection::spawn(std::make_shared<HttpConnection>(std::move(socket), state));
  }
}

Failure listen_failure(const std::string& host, uint16_t port, const error_code& error) {
  std::string message = "cannot listen on " + host + ":" + std::to_string(port) + ": " + error.message();
  if (error == asio::error::address_in_use) {
    message += "; stop the other process or choose another port";
  } else if (error == asio::error::access_denied) {
    message += "; ports below 1024 need privileges";
  } else {
    message += "; use an address of this machine";
  }
  return fail(Error::kIo, message);
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::listen(asio::io_context& io, const std::string& host,
                                                       uint16_t port, HttpHandler& handler,
                                                       HttpLimits limits) {
  error_code error;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, error);
  if (error || found.empty())
    return fail(Error::kInvalidArgument, "cannot resolve \"" + host + "\": " + error.message());
  const tcp::endpoint endpoint = *found.begin();
  auto acceptor = std::make_shared<tcp::acceptor>(io);
  acceptor->open(endpoint.protocol(), error);
  if (!error) acceptor->set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor->bind(endpoint, error);
  if (!error) acceptor->listen(asio::socket_base::max_listen_connections, error);
  if (error) return listen_failure(host, port, error);
  auto state = std::make_shared<HttpServerState>(HttpServerState{handler, limits, {}, false});
  return std::unique_ptr<HttpServer>(
      new HttpServer(std::make_unique<Acceptor>(Acceptor{std::move(acceptor)}), std::move(state)));
}

HttpServer::HttpServer(std::unique_ptr<Acceptor> acceptor, std::shared_ptr<HttpServerState> state)
    : acceptor_(std::move(acceptor)), state_(std::move(state)) {
  asio::co_spawn(acceptor_->socket->get_executor(), accept_all(acceptor_->socket, state_), asio::detached);
}

HttpServer::~HttpServer() { drain(); }

uint16_t HttpServer::port() const { return acceptor_->socket->local_endpoint().port(); }

void HttpServer::drain() {
  error_code ignored;
  acceptor_->socket->close(ignored);
  close_after_answers();
}

void HttpServer::close_after_answers() {
  state_->draining = true;
  for (HttpConnection* connection : state_->connections) connection->close_if_idle();
}

}  // namespace penstock::router
