#include "router/answer.h"

#include <gtest/gtest.h>

#include "tests/router/tiny_model.h"

namespace penstock::router {
namespace {

// Keeps what an answer writes.
class RecordingExchange final : public HttpExchange {
 public:
  void respond(HttpResponse r) override { response = std::move(r); }
  void start_stream(const std::string& content_type, const HttpHeaders& headers) override {
    stream_type = content_type;
    stream_headers = headers;
  }
  void stream(std::string_view data) override { streamed += data; }
  void end_stream() override { ended = true; }
  void on_gone(std::function<void()>) override {}

  std::optional<HttpResponse> response;
  std::string stream_type, streamed;
  HttpHeaders stream_headers;
  bool ended = false;
};

class AnswerTest : public ::testing::Test {
 protected:
  std::unique_ptr<Answer> make(Endpoint endpoint, GenerationOptions options, size_t prompts = 1) {
    AnswerSpec spec;
    spec.header = {endpoint, "id-1", 1700000000, "tiny"};
    spec.options = std::move(options);
    spec.prompts.assign(prompts, {5, 6, 7});
    spec.headers = {{"x-request-id", "r1"}};
    exchange_ = std::make_shared<RecordingExchange>();
    return std::make_unique<Answer>(std::move(spec), tokenizer_, exchange_);
  }
  GeneratedToken token(const std::string& text, float logprob = -0.5f) {
    GeneratedToken generated;
    const auto ids = tokenizer_.encode(text, ParseSpecial::kNo).value();
    EXPECT_EQ(ids.size(), 1u) << text;
    generated.token = ids[0];
    generated.logprob = logprob;
    generated.top = {{ids[0], logprob}};
    return generated;
  }
  GeneratedToken stop_token() {
    GeneratedToken generated;
    generated.token = TinyModel::kTurnEnd;
    generated.is_stop_id = true;
    return generated;
  }
  static std::string chat_event(const std::string& choices, const std::string& more = "") {
    return R"(data: {"id":"id-1","object":"chat.completion.chunk","created":1700000000,"model":"tiny","choices":)" +
           choices + more + "}\n\n";
  }
  static std::string chat_choice(int index, const std::string& delta, const std::string& finish = "null") {
    return R"([{"index":)" + std::to_string(index) + R"(,"delta":)" + delta +
           R"(,"logprobs":null,"finish_reason":)" + finish + "}]";
  }
  const std::string kRole = R"({"role":"assistant","content":""})";

  TinyModel model_;
  Tokenizer tokenizer_ = model_.tokenizer();
  std::shared_ptr<RecordingExchange> exchange_;
};

GenerationOptions streaming() {
  GenerationOptions options;
  options.stream = true;
  return options;
}

TEST_F(AnswerTest, Case1ChatStreamBytes) {
  auto answer = make(Endpoint::kChat, streaming());
  EXPECT_FALSE(answer->push(0, token("a")));
  EXPECT_FALSE(answer->push(0, stop_token()));
  answer->end(0, "stop");
  EXPECT_EQ(exchange_->stream_type, "text/event-stream");
  EXPECT_EQ(exchange_->stream_headers, (HttpHeaders{{"x-request-id", "r1"}}));
  EXPECT_EQ(exchange_->streamed, chat_event(chat_choice(0, kRole)) +
                                     chat_event(chat_choice(0, R"({"content":"a"})")) +
                                     chat_event(chat_choice(0, "{}", "\"stop\"")) + "data: [DONE]\n\n");
  EXPECT_TRUE(exchange_->ended);
  EXPECT_TRUE(answer->complete());
}

TEST_F(AnswerTest, Case2UsageChunkOnceWithNoChoices) {
  GenerationOptions options = streaming();
  options.include_usage = true;
  auto answer = make(Endpoint::kChat, options);
  answer->push(0, token("a"));
  answer->end(0, "length");
  const std::string usage = R"(,"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4,)"
                            R"("prompt_tokens_details":{"cached_tokens":0}})";
  EXPECT_EQ(exchange_->streamed, chat_event(chat_choice(0, kRole)) +
                                     chat_event(chat_choice(0, R"({"content":"a"})")) +
                                     chat_event(chat_choice(0, "{}", "\"length\"")) +
                                     chat_event("[]", usage) + "data: [DONE]\n\n");
}

TEST_F(AnswerTest, ContinuousUsageIsOnEveryChunk) {
  GenerationOptions options = streaming();
  options.include_usage = options.continuous_usage = true;
  auto answer = make(Endpoint::kChat, options);
  answer->push(0, token("a"));
  answer->end(0, "length");
  size_t usages = 0, events = 0;
  for (size_t at = 0; (at = exchange_->streamed.find("\"usage\":{", at)) != std::string::npos; ++at) ++usages;
  for (size_t at = 0; (at = exchange_->streamed.find("data: {", at)) != std::string::npos; ++at) ++events;
  EXPECT_EQ(usages, events);
}

TEST_F(AnswerTest, Case3RoleFirstPerIndex) {
  GenerationOptions options = streaming();
  options.choices = 2;
  auto answer = make(Endpoint::kChat, options);
  answer->push(1, token("b"));
  answer->push(0, token("a"));
  answer->end(1, "length");
  EXPECT_FALSE(exchange_->ended);
  answer->end(0, "length");
  EXPECT_EQ(exchange_->streamed,
            chat_event(chat_choice(1, kRole)) + chat_event(chat_choice(1, R"({"content":"b"})")) +
                chat_event(chat_choice(0, kRole)) + chat_event(chat_choice(0, R"({"content":"a"})")) +
                chat_event(chat_choice(1, "{}", "\"length\"")) +
                chat_event(chat_choice(0, "{}", "\"length\"")) + "data: [DONE]\n\n");
}

TEST_F(AnswerTest, Case5HeldBackTextComesBeforeTheFinishChunk) {
  GenerationOptions options = streaming();
  options.stop = {"ab"};
  auto answer = make(Endpoint::kChat, options);
  answer->push(0, token("a"));
  answer->end(0, "length");
  EXPECT_EQ(exchange_->streamed, chat_event(chat_choice(0, kRole)) +
                                     chat_event(chat_choice(0, R"({"content":"a"})")) +
                                     chat_event(chat_choice(0, "{}", "\"length\"")) + "data: [DONE]\n\n");
}

// Cases 10 and 12: what the chunks say, joined, is the whole answer; never half a character, cut or not.
TEST_F(AnswerTest, Case10WholeCodePointsStreamingOrNot) {
  const std::string text = "a\xF0\x9F\xA6\x84\xE4\xBD\xA0 z";
  const std::vector<TokenId> ids = tokenizer_.encode(text, ParseSpecial::kNo).value();
  ASSERT_GT(ids.size(), 6u) << "characters must be split";
  for (size_t count = 1; count <= ids.size(); ++count) {
    std::string streamed, whole;
    for (const bool stream : {true, false}) {
      GenerationOptions options;
      options.stream = stream;
      auto answer = make(Endpoint::kChat, options);
      for (size_t i = 0; i < count; ++i) {
        GeneratedToken generated;
        generated.token = ids[i];
        answer->push(0, generated);
      }
      answer->end(0, "length");
      if (!stream) {
        whole = Json::parse(exchange_->response->body)["choices"][0]["message"]["content"];
        continue;
      }
      for (size_t at = 0; (at = exchange_->streamed.find("data: {", at)) != std::string::npos; ++at) {
        const size_t end = exchange_->streamed.find("\n\n", at);
        const Json json = Json::parse(exchange_->streamed.substr(at + 6, end - at - 6));
        streamed += json["choices"][0]["delta"].value("content", "");
      }
    }
    EXPECT_EQ(streamed, whole) << count;
    EXPECT_EQ(text.rfind(whole, 0), 0u) << "a prefix, and no replacement characters: " << whole;
  }
}

TEST_F(AnswerTest, KeepAliveIsACommentAndOnlyOnStreams) {
  auto answer = make(Endpoint::kChat, streaming());
  answer->keep_alive();
  EXPECT_EQ(exchange_->stream_type, "text/event-stream");
  EXPECT_EQ(exchange_->streamed, ": keep-alive\n\n");
  answer->push(0, token("a"));
  answer->end(0, "stop");
  const std::string all = exchange_->streamed;
  answer->keep_alive();
  EXPECT_EQ(exchange_->streamed, all) << "nothing after the end";
  auto whole = make(Endpoint::kChat, {});
  whole->keep_alive();
  EXPECT_EQ(exchange_->stream_type + exchange_->streamed, "");
}

TEST_F(AnswerTest, CompletionStreamBytes) {
  auto answer = make(Endpoint::kCompletions, streaming());
  answer->push(0, token("a"));
  answer->end(0, "stop");
  const std::string head =
      R"(data: {"id":"id-1","object":"text_completion","created":1700000000,"model":"tiny",)";
  EXPECT_EQ(exchange_->streamed,
            head + R"("choices":[{"index":0,"text":"a","logprobs":null,"finish_reason":null}]})" + "\n\n" +
                head + R"("choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"stop"}]})" +
                "\n\n" + "data: [DONE]\n\n");
}

TEST_F(AnswerTest, WholeChatBytes) {
  auto answer = make(Endpoint::kChat, {});
  answer->push(0, token("a"));
  answer->push(0, stop_token());
  EXPECT_FALSE(exchange_->response);
  answer->end(0, "stop");
  ASSERT_TRUE(exchange_->response);
  EXPECT_EQ(exchange_->response->status, 200);
  EXPECT_EQ(
      exchange_->response->body,
      R"({"id":"id-1","object":"chat.completion","created":1700000000,"model":"tiny","choices":[{"index":0,)"
      R"("message":{"role":"assistant","content":"a"},"logprobs":null,"finish_reason":"stop"}],)"
      R"("usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,)"
      R"("prompt_tokens_details":{"cached_tokens":0}}})");
}

TEST_F(AnswerTest, ChatLogprobs) {
  GenerationOptions options;
  options.logprobs = true;
  options.top_logprobs = 1;
  auto answer = make(Endpoint::kChat, options);
  answer->push(0, token("a", -0.25f));
  GeneratedToken impossible = token("b", -std::numeric_limits<float>::infinity());
  answer->push(0, impossible);
  answer->end(0, "length");
  const Json json = Json::parse(exchange_->response->body);
  EXPECT_EQ(dump(json["choices"][0]["logprobs"]),
            R"({"content":[{"token":"a","logprob":-0.25,"bytes":[97],"top_logprobs":)"
            R"([{"token":"a","logprob":-0.25,"bytes":[97]}]},)"
            R"({"token":"b","logprob":-9999.0,"bytes":[98],"top_logprobs":)"
            R"([{"token":"b","logprob":-9999.0,"bytes":[98]}]}]})");
}

TEST_F(AnswerTest, LogprobBytesMakeSplitCharactersLossless) {
  GenerationOptions options;
  options.logprobs = true;
  auto answer = make(Endpoint::kChat, options);
  const std::string emoji = "\xF0\x9F\xA6\x84";
  const std::vector<TokenId> ids = tokenizer_.encode(emoji, ParseSpecial::kNo).value();
  for (const TokenId id : ids) {
    GeneratedToken generated;
    generated.token = id;
    answer->push(0, generated);
  }
  answer->end(0, "length");
  const Json json = Json::parse(exchange_->response->body);
  std::string bytes, pieces;
  for (const Json& entry : json["choices"][0]["logprobs"]["content"]) {
    pieces += entry["token"].get<std::string>();
    for (const Json& byte : entry["bytes"]) bytes += static_cast<char>(byte.get<int>());
  }
  EXPECT_EQ(bytes, emoji);
  EXPECT_EQ(pieces, emoji);
}

TEST_F(AnswerTest, CompletionLogprobs) {
  GenerationOptions options;
  options.logprobs = true;
  options.top_logprobs = 1;
  auto answer = make(Endpoint::kCompletions, options);
  GeneratedToken first = token("a", -2.0f);
  first.top = {{token("b").token, -0.5f}};
  answer->push(0, first);
  answer->push(0, token("b", -0.5f));
  answer->end(0, "length");
  const Json json = Json::parse(exchange_->response->body);
  EXPECT_EQ(dump(json["choices"][0]["logprobs"]),
            R"({"tokens":["a","b"],"token_logprobs":[-2.0,-0.5],)"
            R"("top_logprobs":[{"b":-0.5,"a":-2.0},{"b":-0.5}],"text_offset":[0,1]})");
}

TEST_F(AnswerTest, TokenIdsOfPromptAndAnswer) {
  GenerationOptions options;
  options.return_token_ids = true;
  options.choices = 2;
  auto answer = make(Endpoint::kCompletions, options, 2);
  ASSERT_EQ(answer->choice_count(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    answer->push(i, token("a"));
    answer->push(i, stop_token());
    answer->end(i, "stop");
  }
  const Json json = Json::parse(exchange_->response->body);
  EXPECT_EQ(dump(json["choices"][3]["prompt_token_ids"]), "[5,6,7]");
  EXPECT_EQ(json["choices"][3]["token_ids"].size(), 2u);
  EXPECT_EQ(json["usage"]["prompt_tokens"], 6);
  EXPECT_EQ(json["usage"]["completion_tokens"], 8);
}

TEST_F(AnswerTest, StreamedTokensAreEachShownOnce) {
  GenerationOptions options = streaming();
  options.return_token_ids = options.logprobs = true;
  auto answer = make(Endpoint::kChat, options);
  answer->push(0, token("a"));
  answer->push(0, token("b"));
  answer->push(0, stop_token());
  answer->end(0, "stop");
  std::vector<int> ids;
  size_t logprobs = 0;
  for (size_t at = 0; (at = exchange_->streamed.find("data: {", at)) != std::string::npos;) {
    const size_t end = exchange_->streamed.find("\n\n", at);
    const Json json = Json::parse(exchange_->streamed.substr(at + 6, end - at - 6));
    at = end;
    for (const Json& id : json["choices"][0]["token_ids"]) ids.push_back(id);
    if (json["choices"][0]["logprobs"].is_object())
      logprobs += json["choices"][0]["logprobs"]["content"].size();
  }
  EXPECT_EQ(ids, (std::vector<int>{token("a").token, token("b").token, TinyModel::kTurnEnd}));
  EXPECT_EQ(logprobs, 3u);
}

TEST_F(AnswerTest, FailureBeforeTheHeadersIsAnHttpError) {
  auto answer = make(Endpoint::kChat, streaming());
  answer->fail(unavailable("no nodes", 2));
  ASSERT_TRUE(exchange_->response);
  EXPECT_EQ(exchange_->response->status, 503);
  EXPECT_TRUE(exchange_->streamed.empty());
}

TEST_F(AnswerTest, Case7FailureAfterTheHeadersIsAnEventThenDone) {
  auto answer = make(Endpoint::kChat, streaming());
  answer->push(0, token("a"));
  exchange_->streamed.clear();
  answer->fail(unavailable("nodes lost", 1));
  EXPECT_EQ(exchange_->streamed,
            R"(data: {"error":{"message":"nodes lost","type":"service_unavailable_error","param":null,)"
            R"("code":"service_unavailable"}})"
            "\n\ndata: [DONE]\n\n");
  EXPECT_TRUE(exchange_->ended);
  answer->push(0, token("b"));
  answer->end(0, "stop");
  EXPECT_EQ(exchange_->streamed.find("[DONE]"), exchange_->streamed.rfind("[DONE]")) << "inert afterwards";
}

}  // namespace
}  // namespace penstock::router
