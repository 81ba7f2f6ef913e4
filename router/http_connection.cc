#include "router/http_connection.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include "router/api_error.h"
#include "router/http_text.h"

namespace penstock::router {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

// After a refusal the client may still be sending; what arrives is thrown away for so long, so that the
// answer is not lost to a reset.
constexpr Duration kLinger = Duration::from_ms(2000);
constexpr size_t kReadBytes = 4096;

using Parser = http::request_parser<http::string_body>;

std::string field(const Parser& parser, http::field name) {
  const auto value = parser.get()[name];
  return {value.data(), value.size()};
}

void read_head(const Parser& parser, HttpHead& head) {
  const auto method = parser.get().method_string();
  head.method.assign(method.data(), method.size());
  const auto target = parser.get().target();
  head.path = std::string(target.data(), target.size());
  head.path.resize(std::min(head.path.find('?'), head.path.size()));
  head.content_type = field(parser, http::field::content_type);
  head.authorization = field(parser, http::field::authorization);
  const auto request_id = parser.get()["x-request-id"];
  head.request_id.assign(request_id.data(), request_id.size());
}

ApiError error_of(error_code error, const HttpLimits& limits) {
  if (error == http::error::body_limit) return body_too_large(limits.body_bytes_max);
  ApiError refusal = broken_body("This is no valid HTTP request: " + error.message() + ".");
  if (error == http::error::header_limit) refusal.status = 431;
  return refusal;
}

}  // namespace

// The exchange of one request; calls that come after its answer, or after the client, do nothing.
class ConnectionExchange final : public HttpExchange {
 public:
  ConnectionExchange(std::shared_ptr<HttpConnection> connection, HttpHead head)
      : connection_(std::move(connection)), number_(connection_->exchange_no_), head_(std::move(head)) {}

  void respond(HttpResponse response) override {
    if (!current()) return;
    connection_->state_->handler.answered(head_, response.status);
    if (connection_->state_->draining) connection_->keep_alive_ = false;
    connection_->append(response_text(response, connection_->keep_alive_, head_.method == "HEAD"));
    connection_->complete();
  }

  void start_stream(const std::string& content_type, const HttpHeaders& headers) override {
    if (!current()) return;
    connection_->state_->handler.answered(head_, 200);
    if (connection_->http10_ || connection_->state_->draining) connection_->keep_alive_ = false;
    chunked_ = !connection_->http10_;
    connection_->append(stream_head_text(content_type, headers, connection_->keep_alive_, chunked_));
  }

  void stream(std::string_view data) override {
    if (!current() || data.empty()) return;
    connection_->append(chunked_ ? chunk_text(data) : std::string(data));
  }

  void end_stream() override {
    if (!current()) return;
    if (chunked_) connection_->append(kLastChunk);
    connection_->complete();
  }

  void on_gone(std::function<void()> callback) override {
    if (connection_->exchange_no_ != number_) return;
    if (connection_->gone_) {
      asio::post(connection_->socket_.get_executor(), std::move(callback));
    } else if (connection_->answering_) {
      connection_->on_gone_ = std::move(callback);
    }
  }

 private:
  bool current() const {
    return connection_->exchange_no_ == number_ && connection_->answering_ && !connection_->gone_;
  }

  std::shared_ptr<HttpConnection> connection_;
  uint64_t number_;
  HttpHead head_;
  bool chunked_ = false;
};

HttpConnection::HttpConnection(asio::ip::tcp::socket socket, std::shared_ptr<HttpServerState> state)
    : socket_(std::move(socket)),
      state_(std::move(state)),
      wake_(socket_.get_executor()),
      deadline_(socket_.get_executor()) {
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  state_->connections.insert(this);
}

HttpConnection::~HttpConnection() { state_->connections.erase(this); }

void HttpConnection::spawn(std::shared_ptr<HttpConnection> self) {
  const auto executor = self->socket_.get_executor();
  asio::co_spawn(
      executor, [self]() -> asio::awaitable<void> { co_await self->run(); }, asio::detached);
}

asio::awaitable<void> HttpConnection::run() {
  while (!gone_) {
    HttpRequest request;
    const Read read = co_await read_request(request);
    if (read == Read::kClosed) break;
    if (read == Read::kRequest) {
      ++exchange_no_;
      answering_ = true;
      auto exchange = std::make_shared<ConnectionExchange>(shared_from_this(), request);
      state_->handler.handle(std::move(request), std::move(exchange));
      co_await write_answer();
    }
    if (!keep_alive_ || state_->draining) break;
  }
  clear_deadline();
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

// A request is complete, or was answered without its body, or the connection is over.
asio::awaitable<HttpConnection::Read> HttpConnection::read_request(HttpRequest& request) {
  Parser parser;
  parser.header_limit(static_cast<uint32_t>(state_->limits.head_bytes_max));
  parser.body_limit(state_->limits.body_bytes_max);
  error_code error;
  idle_ = buffer_.size() == 0;
  if (idle_) {
    set_deadline(state_->limits.idle_max);
    co_await socket_.async_wait(asio::ip::tcp::socket::wait_read,
                                asio::redirect_error(asio::use_awaitable, error));
    idle_ = false;
    if (error) co_return Read::kClosed;
  }
  set_deadline(state_->limits.head_max);
  co_await http::async_read_header(socket_, buffer_, parser,
                                   asio::redirect_error(asio::use_awaitable, error));
  if (error && error.category() != http::make_error_code(http::error::end_of_stream).category())
    co_return Read::kClosed;  // a socket error: nobody to answer
  if (error == http::error::end_of_stream || error == http::error::partial_message) co_return Read::kClosed;
  read_head(parser, request);
  http10_ = parser.get().version() < 11;
  keep_alive_ = parser.get().keep_alive();
  if (error) {
    co_await refuse(request, error_response(error_of(error, state_->limits)));
    co_return Read::kClosed;
  }
  const bool has_body = !parser.is_done();
  if (auto answer = state_->handler.check_head(request)) {
    if (has_body) {
      co_await refuse(request, std::move(*answer));
      co_return Read::kClosed;
    }
    state_->handler.answered(request, answer->status);
    co_await write_all(response_text(*answer, keep_alive_, request.method == "HEAD"));
    co_return Read::kAnswered;
  }
  set_deadline(state_->limits.body_max);
  if (has_body && boost::beast::iequals(parser.get()[http::field::expect], "100-continue")) {
    if (!co_await write_all("HTTP/1.1 100 Continue\r\n\r\n")) co_return Read::kClosed;
    set_deadline(state_->limits.body_max);
  }
  if (has_body) {
    co_await http::async_read(socket_, buffer_, parser, asio::redirect_error(asio::use_awaitable, error));
    if (error == http::error::body_limit || error == http::error::bad_chunk ||
        error == http::error::bad_chunk_extension) {
      co_await refuse(request, error_response(error_of(error, state_->limits)));
      co_return Read::kClosed;
    }
    if (error) co_return Read::kClosed;
  }
  clear_deadline();
  request.body = std::move(parser.get().body());
  co_return Read::kRequest;
}

// Answers and closes, while the client may still be sending.
asio::awaitable<void> HttpConnection::refuse(const HttpHead& head, HttpResponse response) {
  keep_alive_ = false;
  state_->handler.answered(head, response.status);
  if (!co_await write_all(response_text(response, false, head.method == "HEAD"))) co_return;
  error_code error;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, error);
  set_deadline(kLinger);
  std::string waste(1u << 16, '\0');
  while (!error) {
    co_await socket_.async_read_some(asio::buffer(waste), asio::redirect_error(asio::use_awaitable, error));
  }
}

// Until the answer is complete and written, or the client is gone.
asio::awaitable<void> HttpConnection::write_answer() {
  while (!gone_) {
    if (!output_.empty()) {
      if (!co_await write_all(std::exchange(output_, {}))) lose();
      continue;
    }
    if (!answering_) break;
    if (!watching_ && buffer_.size() < state_->limits.pipelined_bytes_max) {
      watching_ = true;
      auto self = shared_from_this();
      asio::co_spawn(
          socket_.get_executor(), [self]() -> asio::awaitable<void> { co_await self->watch(); },
          asio::detached);
    }
    error_code ignored;
    wake_.expires_at(asio::steady_timer::time_point::max());
    co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  co_await stop_watching();
}

asio::awaitable<bool> HttpConnection::write_all(std::string data) {
  error_code error;
  writing_ = data.size();
  set_deadline(state_->limits.write_max);
  co_await asio::async_write(socket_, asio::buffer(data), asio::redirect_error(asio::use_awaitable, error));
  clear_deadline();
  writing_ = 0;
  co_return !error;
}

// While an answer is being made: notices that the client closes; pipelined requests wait in the buffer.
asio::awaitable<void> HttpConnection::watch() {
  while (answering_ && !gone_ && buffer_.size() < state_->limits.pipelined_bytes_max) {
    error_code error;
    const size_t bytes = co_await socket_.async_read_some(buffer_.prepare(kReadBytes),
                                                          asio::redirect_error(asio::use_awaitable, error));
    buffer_.commit(bytes);
    if (error == asio::error::operation_aborted) break;
    if (error) {
      lose();
      break;
    }
  }
  watching_ = false;
  wake_.cancel();
}

asio::awaitable<void> HttpConnection::stop_watching() {
  error_code ignored;
  if (watching_) socket_.cancel(ignored);
  while (watching_) {
    wake_.expires_at(asio::steady_timer::time_point::max());
    co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

void HttpConnection::append(std::string_view data) {
  output_ += data;
  if (output_.size() + writing_ > state_->limits.output_bytes_max && answering_ &&
      writing_ > 0) {  // a single large answer to a client that reads is no overflow
    lose();
    return;
  }
  wake_.cancel();
}

void HttpConnection::complete() {
  answering_ = false;
  on_gone_ = nullptr;
  wake_.cancel();
}

void HttpConnection::lose() {
  if (gone_) return;
  gone_ = true;
  output_.clear();
  error_code ignored;
  socket_.close(ignored);
  wake_.cancel();
  if (answering_ && on_gone_) asio::post(socket_.get_executor(), std::exchange(on_gone_, nullptr));
}

void HttpConnection::close_if_idle() {
  error_code ignored;
  if (idle_) socket_.close(ignored);
}

void HttpConnection::set_deadline(Duration after) {
  deadline_.expires_after(after.chrono());
  deadline_.async_wait([weak = weak_from_this()](error_code error) {
    if (error) return;
    if (const auto self = weak.lock()) self->lose();
  });
}

void HttpConnection::clear_deadline() { deadline_.cancel(); }

}  // namespace penstock::router
