#include <utility>  // Boost 1.74's coroutines need it first

#include "router/http_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <map>
#include <thread>

#include "router/api_error.h"
#include "tests/router/http_client.h"

namespace penstock::router {
namespace {

// /echo answers the body; /hold keeps the exchange for the test; /flood streams without end.
class TestHandler final : public HttpHandler {
 public:
  std::optional<HttpResponse> check_head(const HttpHead& head) override {
    if (head.path == "/none") return error_response(path_not_found(head.method, head.path));
    return std::nullopt;
  }
  void handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) override {
    if (request.path == "/hold") {
      exchange->on_gone([this] { gone.set_value(); });
      held = std::move(exchange);
      holding.set_value();
      return;
    }
    if (request.path == "/stream") {
      exchange->start_stream("text/event-stream", {{"x-request-id", request.request_id}});
      exchange->stream("data: 1\n\n");
      exchange->stream("data: 2\n\n");
      exchange->end_stream();
      return;
    }
    exchange->respond({200, "text/plain", request.method + " " + request.path + " " + request.body, {}});
  }

  std::promise<void> holding, gone;
  std::shared_ptr<HttpExchange> held;
};

class HttpServerTest : public ::testing::Test {
 protected:
  static HttpLimits small() {
    HttpLimits limits;
    limits.body_bytes_max = 1000;
    limits.output_bytes_max = 200000;
    limits.pipelined_bytes_max = 8192;
    return limits;
  }
  explicit HttpServerTest(const HttpLimits& limits = small()) {
    server_ = HttpServer::listen(io_, "127.0.0.1", 0, handler_, limits).value();
    port_ = server_->port();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~HttpServerTest() override {
    on_io([this] {
      handler_.held.reset();
      server_.reset();
    });
    io_.stop();
    thread_.join();
  }
  // Runs `work` on the server's thread and waits for it.
  void on_io(std::function<void()> work) {
    std::promise<void> done;
    boost::asio::post(io_, [&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }

  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io_.get_executor()};
  TestHandler handler_;
  std::unique_ptr<HttpServer> server_;
  uint16_t port_ = 0;
  std::thread thread_;
};

TEST_F(HttpServerTest, KeepsTheConnectionAndAnswersInOrder) {
  HttpClient client(port_);
  client.post("/echo", "one");
  EXPECT_EQ(client.response().body, "POST /echo one");
  client.get("/echo?query=dropped");
  EXPECT_EQ(client.response().body, "GET /echo ");
}

TEST_F(HttpServerTest, PipelinedRequestsAreAnsweredInOrder) {
  HttpClient client(port_);
  std::string requests;
  for (int i = 0; i < 20; ++i) requests += "GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\n\r\n";
  client.send(requests);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(client.response().body, "GET /" + std::to_string(i) + " ");
}

TEST_F(HttpServerTest, PipelinedBehindAHeldAnswerIsAnsweredAfterIt) {
  HttpClient client(port_);
  client.get("/hold");
  handler_.holding.get_future().wait();
  client.get("/next");
  on_io([this] { handler_.held->respond({200, "text/plain", "held", {}}); });
  EXPECT_EQ(client.response().body, "held");
  EXPECT_EQ(client.response().body, "GET /next ");
}

TEST_F(HttpServerTest, HeadHasNoBody) {
  HttpClient client(port_);
  client.send("HEAD /echo HTTP/1.1\r\nHost: x\r\n\r\n");
  const ClientResponse head = client.response(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("content-length"), "11");
  client.get("/after");
  EXPECT_EQ(client.response().body, "GET /after ");
}

TEST_F(HttpServerTest, StreamIsChunkedAndExact) {
  HttpClient client(port_);
  client.get("/stream", "x-request-id: abc\r\n");
  const ClientResponse response = client.response();
  EXPECT_EQ(response.header("content-type"), "text/event-stream");
  EXPECT_EQ(response.header("x-request-id"), "abc");
  EXPECT_EQ(response.body, "data: 1\n\ndata: 2\n\n");
  client.get("/after");
  EXPECT_EQ(client.response().body, "GET /after ");
}

TEST_F(HttpServerTest, Http10StreamEndsWithTheConnection) {
  HttpClient client(port_);
  client.send("GET /stream HTTP/1.0\r\n\r\n");
  while (client.read_some()) {
  }
  EXPECT_NE(client.buffered().find("\r\n\r\ndata: 1\n\ndata: 2\n\n"), std::string::npos) << client.buffered();
  EXPECT_EQ(client.buffered().find("chunked"), std::string::npos);
}

TEST_F(HttpServerTest, ConnectionCloseIsHonoured) {
  HttpClient client(port_);
  client.get("/echo", "Connection: close\r\n");
  const ClientResponse response = client.response();
  EXPECT_EQ(response.header("connection"), "close");
  EXPECT_FALSE(client.read_some());
}

TEST_F(HttpServerTest, ContinueIsSentBeforeTheBody) {
  HttpClient client(port_);
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.response().status, 100);
  client.send("ok");
  EXPECT_EQ(client.response().body, "POST /echo ok");
}

TEST_F(HttpServerTest, RefusalNeedsNoBody) {
  HttpClient client(port_);
  client.send("POST /none HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 500\r\n\r\n");
  const ClientResponse response = client.response();
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(response.header("connection"), "close");
}

TEST_F(HttpServerTest, OversizeBodyGets413EvenWhileItIsStillSent) {
  HttpClient client(port_);
  EXPECT_TRUE(client.post("/echo", std::string(1u << 20, 'x')));
  EXPECT_EQ(client.response().status, 413);
}

TEST_F(HttpServerTest, OversizeChunkedBodyGets413) {
  HttpClient client(port_);
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" +
              std::string(2000, 'x') + "\r\n0\r\n\r\n");
  EXPECT_EQ(client.response().status, 413);
}

TEST_F(HttpServerTest, ChunkedBodyIsRead) {
  HttpClient client(port_);
  client.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n");
  EXPECT_EQ(client.response().body, "POST /echo abc");
}

TEST_F(HttpServerTest, WhatIsNoHttpGets400) {
  HttpClient client(port_);
  client.send("\x16\x03\x01 this is no HTTP\r\n\r\n");
  const ClientResponse response = client.response();
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.body.rfind("{\"error\":", 0), 0u) << response.body;
}

TEST_F(HttpServerTest, HugeHeadGets431) {
  HttpClient client(port_);
  client.get("/echo", "X-Long: " + std::string(100000, 'h') + "\r\n");
  EXPECT_EQ(client.response().status, 431);
}

TEST_F(HttpServerTest, DisconnectIsNoticedWhileTheAnswerIsMade) {
  HttpClient client(port_);
  client.get("/hold");
  handler_.holding.get_future().wait();
  client.close();
  EXPECT_EQ(handler_.gone.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  on_io([this] { handler_.held->respond({200, "text/plain", "too late", {}}); });
}

TEST_F(HttpServerTest, SlowClientIsDropped) {
  HttpClient client(port_, 4096);
  client.get("/hold");
  handler_.holding.get_future().wait();
  on_io([this] { handler_.held->start_stream("text/event-stream", {}); });
  auto gone = handler_.gone.get_future();
  const std::string chunk(10000, 'x');
  // The kernel takes some megabytes; then the bound must strike.
  for (int i = 0; i < 5000 && gone.wait_for(std::chrono::seconds(0)) != std::future_status::ready; ++i) {
    on_io([&] { handler_.held->stream(chunk); });
  }
  EXPECT_EQ(gone.wait_for(std::chrono::seconds(10)), std::future_status::ready);
}

TEST_F(HttpServerTest, DrainClosesIdleAndFinishesBusyConnections) {
  HttpClient idle(port_), busy(port_);
  idle.get("/echo");
  idle.response();
  busy.get("/hold");
  handler_.holding.get_future().wait();
  on_io([this] { server_->drain(); });
  EXPECT_FALSE(idle.read_some()) << "closed";
  on_io([this] { handler_.held->respond({200, "text/plain", "last", {}}); });
  const ClientResponse last = busy.response();
  EXPECT_EQ(last.body, "last");
  EXPECT_EQ(last.header("connection"), "close");
  EXPECT_FALSE(busy.read_some());
  HttpClient late(port_);
  EXPECT_FALSE(late.connected() && late.get("/echo") && late.response().status == 200);
}

TEST_F(HttpServerTest, PortInUseSaysWhatToDo) {
  const auto second = HttpServer::listen(io_, "127.0.0.1", port_, handler_, {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.code(), Error::kIo);
  EXPECT_NE(second.message().find(std::to_string(port_)), std::string::npos) << second.message();
  EXPECT_NE(second.message().find("another port"), std::string::npos) << second.message();
}

TEST_F(HttpServerTest, AddressOfAnotherMachineIsRefused) {
  EXPECT_FALSE(HttpServer::listen(io_, "192.0.2.1", 0, handler_, {}).ok());
  EXPECT_FALSE(HttpServer::listen(io_, "no such host", 0, handler_, {}).ok());
}

TEST_F(HttpServerTest, TheLargestBodyIsReadAndOneByteMoreIsNot) {
  HttpClient largest(port_), larger(port_), announced(port_), patient(port_);
  largest.post("/echo", std::string(1000, 'x'));
  EXPECT_EQ(largest.response().status, 200);
  larger.post("/echo", std::string(1001, 'x'));
  EXPECT_EQ(larger.response().status, 413);
  // The head alone is enough to refuse it, with or without a question first.
  announced.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000000\r\n\r\n");
  EXPECT_EQ(announced.response().status, 413);
  patient.send("POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n");
  EXPECT_EQ(patient.response().status, 413);
}

// Two readers of one request must not see two requests: whatever leaves its length in doubt is refused.
TEST_F(HttpServerTest, DoubtfulLengthsAreRefused) {
  for (const char* fields :
       {"Content-Length: abc", "Content-Length: -1", "Content-Length: 2\r\nContent-Length: 3",
        "Content-Length: 99999999999999999999999", "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5"}) {
    HttpClient client(port_);
    client.send("POST /echo HTTP/1.1\r\nHost: x\r\n" + std::string(fields) +
                "\r\n\r\n0\r\n\r\nGET /smuggled");
    const ClientResponse response = client.response();
    EXPECT_TRUE(response.status == 400 || response.status == 413) << fields << ": " << response.status;
    while (client.read_some()) {
    }
    EXPECT_EQ(client.buffered().find("smuggled"), std::string::npos) << fields;
  }
}

TEST_F(HttpServerTest, BrokenChunksAreRefused) {
  for (const char* chunks : {"x\r\nab\r\n", "-1\r\n", "ffffffffffffffffff\r\n", "2\r\nabc\r\n0\r\n\r\n"}) {
    HttpClient client(port_);
    client.send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + std::string(chunks));
    const int status = client.response().status;
    EXPECT_TRUE(status == 400 || status == 413) << chunks << ": " << status;
  }
}

// ---- Clients that dawdle ----------------------------------------------------------------------------------

class SlowLorisTest : public HttpServerTest {
 protected:
  static HttpLimits short_patience() {
    HttpLimits limits = small();
    limits.idle_max = limits.head_max = limits.body_max = Duration::from_ms(200);
    return limits;
  }
  SlowLorisTest() : HttpServerTest(short_patience()) {}

  // Sends `start`, then a byte now and then; true when the server hangs up without an answer.
  bool is_dropped(const std::string& start, const std::string& drip) {
    HttpClient client(port_, 0);
    client.send(start);
    for (int i = 0; i < 2000; ++i) {
      if (!client.send(drip)) return client.buffered().empty();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
};

TEST_F(SlowLorisTest, AHeadThatNeverEndsIsDropped) {
  EXPECT_TRUE(is_dropped("GET /echo HTTP/1.1\r\n", "X-Slow: 1\r\n"));
  HttpClient other(port_);
  other.get("/echo");
  EXPECT_EQ(other.response().status, 200) << "the others are served";
}

TEST_F(SlowLorisTest, ABodyThatNeverEndsIsDropped) {
  EXPECT_TRUE(is_dropped("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n", "x"));
  EXPECT_TRUE(
      is_dropped("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"));
}

TEST_F(SlowLorisTest, AConnectionThatSaysNothingIsClosed) {
  HttpClient silent(port_);
  EXPECT_FALSE(silent.read_some());
  HttpClient kept(port_);
  kept.get("/echo");
  EXPECT_EQ(kept.response().status, 200);
  EXPECT_FALSE(kept.read_some()) << "nor one that says nothing more";
}

TEST_F(SlowLorisTest, ASlowAnswerIsNoSlowClient) {
  HttpClient client(port_);
  client.get("/hold");
  handler_.holding.get_future().wait();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // longer than any patience with clients
  on_io([this] { handler_.held->respond({200, "text/plain", "held", {}}); });
  EXPECT_EQ(client.response().body, "held");
}

}  // namespace
}  // namespace penstock::router
