#include "cli/http_client.h"

#include <gtest/gtest.h>

#include "tests/cli/local_server.h"

namespace penstock::cli {
namespace {

TEST(HttpClient, BodyByLength) {
  LocalServer server({"HTTP/1.1 200 OK\r\nContent-Le", "ngth: 5\r\n\r\nhe", "llo and more"});
  auto response = http_request({.server = server.address(), .target = "/x"});
  ASSERT_TRUE(response.ok()) << response.message();
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->body.substr(0, 5), "hello");
  EXPECT_EQ(server.request().substr(0, 16), "GET /x HTTP/1.1\r");
}

TEST(HttpClient, ChunksArePassedOnAsTheyCome) {
  LocalServer server({"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n4\r\nab", "cd\r\nA;x=1\r\n0123",
                      "456789\r\n", "0\r\n\r\n"});
  std::string pieces;
  int calls = 0;
  auto response =
      http_request({.server = server.address(), .method = "POST", .body = "{}"}, [&](std::string_view piece) {
        pieces += piece;
        ++calls;
      });
  ASSERT_TRUE(response.ok()) << response.message();
  EXPECT_EQ(pieces, "abcd0123456789");
  EXPECT_GE(calls, 2);
  EXPECT_TRUE(response->body.empty());
  EXPECT_NE(server.request().find("Content-Length: 2\r\n"), std::string::npos);
}

TEST(HttpClient, AnErrorAnswerIsNoStream) {
  LocalServer server({"HTTP/1.1 503 No\r\nContent-Length: 3\r\n\r\nbad"});
  auto response = http_request({.server = server.address()}, [](std::string_view) { FAIL(); });
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->status, 503);
  EXPECT_EQ(response->body, "bad");
}

TEST(HttpClient, BodyUntilTheEnd) {
  LocalServer server({"HTTP/1.1 200 OK\r\n\r\nall", " of it"});
  EXPECT_EQ(http_request({.server = server.address()})->body, "all of it");
}

TEST(HttpClient, BrokenAnswersAreFailures) {
  LocalServer cut({"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort"});
  EXPECT_EQ(http_request({.server = cut.address()}).code(), Error::kUnavailable);
  LocalServer cut_chunk({"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"});
  EXPECT_EQ(http_request({.server = cut_chunk.address()}).code(), Error::kUnavailable);
  LocalServer alien({"SSH-2.0-OpenSSH\r\n\r\n"});
  EXPECT_EQ(http_request({.server = alien.address()}).code(), Error::kCorrupt);
  LocalServer silent({}, false);
  auto late = http_request({.server = silent.address(), .silence_max = Duration::from_ms(30)});
  EXPECT_EQ(late.code(), Error::kDeadlineExceeded);
}

TEST(HttpClient, NobodyListens) {
  HostPort closed;
  {
    LocalServer server({});
    closed = server.address();
  }
  auto refused = http_request({.server = closed, .target = "/ready"});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.message(), "GET http://" + closed.text() + "/ready: Connection refused");
}

TEST(ChunkedDecoder, CutAnywhere) {
  const std::string wire = "3\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nTrailer: x\r\n\r\n";
  for (size_t cut = 0; cut <= wire.size(); ++cut) {
    ChunkedDecoder decoder;
    std::string out;
    ASSERT_TRUE(decoder.feed(std::string_view(wire).substr(0, cut), out).ok());
    EXPECT_EQ(decoder.done(), cut == wire.size());
    ASSERT_TRUE(decoder.feed(std::string_view(wire).substr(cut), out).ok());
    EXPECT_TRUE(decoder.done());
    EXPECT_EQ(out, "abc0123456789abcdef");
  }
}

TEST(ChunkedDecoder, NonsenseIsRefused) {
  for (const char* bad : {"x\r\n", "\r\n", "3\r\nabcd\r\n", "fffffffffffffffff\r\n"}) {
    ChunkedDecoder decoder;
    std::string out;
    EXPECT_FALSE(decoder.feed(bad, out).ok()) << bad;
  }
  ChunkedDecoder decoder;
  std::string out;
  EXPECT_FALSE(decoder.feed(std::string(10000, '1'), out).ok());
}

}  // namespace
}  // namespace penstock::cli
