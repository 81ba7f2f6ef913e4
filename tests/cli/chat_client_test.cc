#include "cli/chat_client.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/cli/local_server.h"

namespace penstock::cli {
namespace {

constexpr const char* kHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";

std::string chunk(const std::string& content) {
  return R"(data: {"id":"c1","choices":[{"index":0,"delta":{"content":")" + content +
         "\"},\"finish_reason\":null}]}\n\n";
}

TEST(Chat, StreamsTextAndReadsTheUsage) {
  LocalServer server({kHead,
                      R"(data: {"id":"c1","choices":[{"delta":{"role":"assistant","content":""}}]})"
                      "\n\n",
                      chunk("Hel"), chunk("lo"),
                      R"(data: {"id":"c1","choices":[{"delta":{},"finish_reason":"stop"}]})"
                      "\n\n"
                      R"(data: {"id":"c1","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}})"
                      "\n\n"
                      "data: [DONE]\n\n"});
  SystemClock clock;
  std::string streamed;
  auto answer = chat(server.address(), "", {.model = "m", .messages = {{"user", "hi"}}}, clock,
                     [&](std::string_view text) { streamed += text; });
  ASSERT_TRUE(answer.ok()) << answer.message();
  EXPECT_EQ(streamed, "Hello");
  EXPECT_EQ(answer->text, "Hello");
  EXPECT_EQ(answer->id, "c1");
  EXPECT_EQ(answer->finish_reason, "stop");
  EXPECT_EQ(answer->prompt_tokens, 7);
  EXPECT_EQ(answer->completion_tokens, 3);
  EXPECT_LE(answer->ttft.us, answer->total.us);
}

TEST(Chat, ErrorsReachTheUser) {
  SystemClock clock;
  const auto ignore = [](std::string_view) {};
  LocalServer refused(
      {"HTTP/1.1 404 Not Found\r\nContent-Length: 35\r\n\r\n{\"error\":{\"message\":\"no such model\"}}"});
  EXPECT_EQ(chat(refused.address(), "", {}, clock, ignore).message(), "HTTP 404: no such model");
  LocalServer broken(
      {kHead, chunk("a"), "data: {\"error\":{\"message\":\"decode-0 died\"}}\n\ndata: [DONE]\n\n"});
  EXPECT_EQ(chat(broken.address(), "", {}, clock, ignore).message(), "decode-0 died");
  LocalServer cut({kHead, chunk("a")});
  EXPECT_EQ(chat(cut.address(), "", {}, clock, ignore).message(), "the stream ended before its [DONE]");
  LocalServer alien({kHead, "data: {\n\ndata: [DONE]\n\n"});
  EXPECT_EQ(chat(alien.address(), "", {}, clock, ignore).code(), Error::kCorrupt);
}

TEST(Chat, RequestCarriesWhatWasAsked) {
  const auto json = nlohmann::json::parse(chat_request_json({.model = "m",
                                                             .messages = {{"user", "\xff"}},
                                                             .tokens_max = 9,
                                                             .temperature = 0.5,
                                                             .top_p = {},
                                                             .seed = 4}));
  EXPECT_EQ(json["stream"], true);
  EXPECT_EQ(json["stream_options"]["include_usage"], true);
  EXPECT_EQ(json["max_tokens"], 9);
  EXPECT_EQ(json["temperature"], 0.5);
  EXPECT_EQ(json["seed"], 4);
  EXPECT_FALSE(json.contains("top_p"));
  EXPECT_EQ(json["messages"][0]["content"], "\xef\xbf\xbd");  // bytes that are no UTF-8 become U+FFFD
}

TEST(Chat, KeyAndModel) {
  LocalServer server({"HTTP/1.1 200 OK\r\n\r\n{\"data\":[{\"id\":\"smol\"}]}"});
  EXPECT_EQ(*first_model(server.address(), "secret"), "smol");
  EXPECT_NE(server.request().find("Authorization: Bearer secret\r\n"), std::string::npos);
  LocalServer empty({"HTTP/1.1 200 OK\r\n\r\n{\"data\":[]}"});
  EXPECT_EQ(first_model(empty.address(), "").code(), Error::kCorrupt);
}

TEST(ChatAnswer, TimePerOutputToken) {
  ChatAnswer answer;
  answer.ttft = Duration::from_ms(100);
  answer.total = Duration::from_ms(400);
  answer.completion_tokens = 4;
  EXPECT_DOUBLE_EQ(answer.tpot_ms(), 100);
  answer.completion_tokens = 1;
  EXPECT_DOUBLE_EQ(answer.tpot_ms(), 0);
}

}  // namespace
}  // namespace penstock::cli
