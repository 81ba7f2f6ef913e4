#include "router/parse_request.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace penstock::router {
namespace {

std::string chat_with(const std::string& fields) {
  return R"({"messages":[{"role":"user","content":"hi"}])" + (fields.empty() ? "" : "," + fields) + "}";
}
std::string completion_with(const std::string& fields) {
  return R"({"prompt":"hi")" + (fields.empty() ? "" : "," + fields) + "}";
}

ChatRequest chat(const std::string& body) {
  RequestParser parser;
  auto parsed = parser.chat(body);
  if (const auto* error = std::get_if<ApiError>(&parsed)) {
    ADD_FAILURE() << body << ": " << error->message;
    return {};
  }
  return std::get<ChatRequest>(parsed);
}

CompletionRequest completion(const std::string& body) {
  RequestParser parser;
  auto parsed = parser.completion(body);
  if (const auto* error = std::get_if<ApiError>(&parsed)) {
    ADD_FAILURE() << body << ": " << error->message;
    return {};
  }
  return std::get<CompletionRequest>(parsed);
}

ApiError chat_error(const std::string& body) {
  RequestParser parser;
  auto parsed = parser.chat(body);
  const auto* error = std::get_if<ApiError>(&parsed);
  if (error == nullptr) ADD_FAILURE() << "accepted: " << body;
  return error == nullptr ? ApiError{} : *error;
}

ApiError completion_error(const std::string& body) {
  RequestParser parser;
  auto parsed = parser.completion(body);
  const auto* error = std::get_if<ApiError>(&parsed);
  if (error == nullptr) ADD_FAILURE() << "accepted: " << body;
  return error == nullptr ? ApiError{} : *error;
}

TEST(ParseRequestTest, DefaultsOfChat) {
  const ChatRequest request = chat(chat_with(""));
  EXPECT_EQ(request.options.sampling.temperature, 1);
  EXPECT_EQ(request.options.sampling.top_p, 1);
  EXPECT_EQ(request.options.sampling.top_k, 0);
  EXPECT_EQ(request.options.choices, 1);
  EXPECT_FALSE(request.options.tokens_max) << "chat runs to the end of the context";
  EXPECT_FALSE(request.options.sampling.seed);
  EXPECT_FALSE(request.options.stream);
  EXPECT_TRUE(request.options.skip_special_tokens);
}

TEST(ParseRequestTest, CompletionsStopAfterSixteenTokens) {
  EXPECT_EQ(completion(completion_with("")).options.tokens_max, 16);
}

TEST(ParseRequestTest, EveryFieldIsRead) {
  const auto options = chat(chat_with(R"("model":"m","max_tokens":5,"temperature":0.5,"top_p":0.9,"top_k":40,
      "min_p":0.1,"seed":-3,"stop":["a","b"],"n":2,"stream":true,
      "stream_options":{"include_usage":true,"continuous_usage_stats":true},"logprobs":true,"top_logprobs":4,
      "ignore_eos":true,"skip_special_tokens":false,"return_token_ids":true,"user":"u","request_id":"r")"))
                           .options;
  EXPECT_EQ(options.model, "m");
  EXPECT_EQ(options.tokens_max, 5);
  EXPECT_DOUBLE_EQ(options.sampling.temperature, 0.5);
  EXPECT_DOUBLE_EQ(options.sampling.top_p, 0.9);
  EXPECT_EQ(options.sampling.top_k, 40);
  EXPECT_DOUBLE_EQ(options.sampling.min_p, 0.1);
  EXPECT_EQ(options.sampling.seed, -3);
  EXPECT_EQ(options.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(options.choices, 2);
  EXPECT_TRUE(options.stream);
  EXPECT_TRUE(options.include_usage);
  EXPECT_TRUE(options.continuous_usage);
  EXPECT_TRUE(options.logprobs);
  EXPECT_EQ(options.top_logprobs, 4);
  EXPECT_TRUE(options.ignore_eos);
  EXPECT_FALSE(options.skip_special_tokens);
  EXPECT_TRUE(options.return_token_ids);
  EXPECT_EQ(options.request_id, "r");
}

TEST(ParseRequestTest, MaxCompletionTokensWins) {
  EXPECT_EQ(chat(chat_with(R"("max_tokens":5,"max_completion_tokens":7)")).options.tokens_max, 7);
}

TEST(ParseRequestTest, Case35HugeMaxTokensIsReadAndClampedLater) {
  EXPECT_EQ(chat(chat_with(R"("max_tokens":9223372036854775807)")).options.tokens_max, INT64_MAX);
}

TEST(ParseRequestTest, ExplicitNullsAreAbsent) {
  const auto options =
      chat(chat_with(R"("model":null,"max_tokens":null,"temperature":null,"top_p":null,"n":null,
      "stop":null,"seed":null,"stream":null,"stream_options":null,"logprobs":null,"top_logprobs":null,
      "logit_bias":null,"response_format":null,"tools":null,"presence_penalty":null,"user":null)"))
          .options;
  EXPECT_FALSE(options.tokens_max);
  EXPECT_EQ(options.choices, 1);
  EXPECT_FALSE(options.logprobs);
}

TEST(ParseRequestTest, UnknownFieldsAreIgnored) {
  chat(chat_with(R"("store":true,"metadata":{"a":1},"never_heard_of":[1,2])"));
}

TEST(ParseRequestTest, RepeatedFieldTheLastCounts) {
  EXPECT_EQ(chat(chat_with(R"("n":2,"n":3)")).options.choices, 3);
}

TEST(ParseRequestTest, WholeDoublesCountAsIntegers) {
  EXPECT_EQ(chat(chat_with(R"("max_tokens":10.0)")).options.tokens_max, 10);
}

TEST(ParseRequestTest, Case19ContentPartsAreFlattened) {
  const ChatRequest request = chat(R"({"messages":[
      {"role":"system","content":"be brief","name":"boss"},
      {"role":"user","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]},
      {"role":"assistant","content":null,"tool_calls":[]}]})");
  ASSERT_EQ(request.messages.size(), 3u);
  EXPECT_EQ(request.messages[0].name, "boss");
  EXPECT_EQ(request.messages[1].content, "one\ntwo");
  EXPECT_EQ(request.messages[2].content, "");
}

TEST(ParseRequestTest, PromptsOfAllFourKinds) {
  EXPECT_EQ(std::get<std::string>(completion(R"({"prompt":"a"})").prompts.at(0)), "a");
  EXPECT_EQ(completion(R"({"prompt":["a","b"]})").prompts.size(), 2u);
  EXPECT_EQ(std::get<std::vector<TokenId>>(completion(R"({"prompt":[1,2,3]})").prompts.at(0)),
            (std::vector<TokenId>{1, 2, 3}));
  const auto lists = completion(R"({"prompt":[[1,2],[3]]})");
  ASSERT_EQ(lists.prompts.size(), 2u);
  EXPECT_EQ(std::get<std::vector<TokenId>>(lists.prompts[1]), (std::vector<TokenId>{3}));
}

TEST(ParseRequestTest, CompletionLogprobsIsANumber) {
  EXPECT_FALSE(completion(completion_with(R"("logprobs":null)")).options.logprobs);
  const auto zero = completion(completion_with(R"("logprobs":0)")).options;
  EXPECT_TRUE(zero.logprobs);
  EXPECT_EQ(zero.top_logprobs, 0);
  EXPECT_EQ(completion(completion_with(R"("logprobs":5)")).options.top_logprobs, 5);
}

// What vllm bench serve, guidellm and the openai package send must pass.
TEST(ParseRequestTest, BodiesOfKnownClients) {
  completion(
      R"({"model":"m","prompt":"x","temperature":0.0,"repetition_penalty":1.0,"max_tokens":8,"logprobs":null,
      "stream":true,"stream_options":{"include_usage":true},"ignore_eos":true})");
  chat(R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"stream":true,
      "stream_options":{"include_usage":true,"continuous_usage_stats":true},"max_completion_tokens":8,
      "stop":null,"ignore_eos":true})");
  chat(
      R"({"messages":[{"role":"user","content":"x"}],"model":"m","stream":false,"response_format":{"type":"text"},
      "tools":[],"presence_penalty":0,"frequency_penalty":0.0,"logit_bias":{},"parallel_tool_calls":true})");
  completion(R"({"prompt":"x","best_of":1,"echo":false,"suffix":"","min_tokens":0,"stop_token_ids":[],
      "use_beam_search":false,"add_special_tokens":true,"priority":0})");
}

struct Refused {
  const char* name;
  std::string body;
  const char* param;
  bool is_chat = true;
};

const Refused kRefused[] = {
    {"n below one", chat_with(R"("n":0)"), "n"},
    {"n too large", chat_with(R"("n":129)"), "n"},
    {"n a string", chat_with(R"("n":"2")"), "n"},
    {"n a fraction", chat_with(R"("n":1.5)"), "n"},
    {"temperature above 2", chat_with(R"("temperature":2.1)"), "temperature"},
    {"temperature negative", chat_with(R"("temperature":-0.1)"), "temperature"},
    {"temperature a string", chat_with(R"("temperature":"hot")"), "temperature"},
    {"top_p zero", chat_with(R"("top_p":0)"), "top_p"},
    {"top_p above 1", chat_with(R"("top_p":1.01)"), "top_p"},
    {"min_p above 1", chat_with(R"("min_p":1.5)"), "min_p"},
    {"top_k below -1", chat_with(R"("top_k":-2)"), "top_k"},
    {"max_tokens zero", chat_with(R"("max_tokens":0)"), "max_tokens"},
    {"max_tokens negative", completion_with(R"("max_tokens":-1)"), "max_tokens", false},
    {"case 27: seed 10**20", chat_with(R"("seed":100000000000000000000)"), "seed"},
    {"seed above int64", chat_with(R"("seed":9223372036854775808)"), "seed"},
    {"seed a fraction", chat_with(R"("seed":0.5)"), "seed"},
    {"case 23: empty stop string", chat_with(R"("stop":[""])"), "stop"},
    {"empty stop text", chat_with(R"("stop":"")"), "stop"},
    {"stop a number", chat_with(R"("stop":5)"), "stop"},
    {"stream a string", chat_with(R"("stream":"yes")"), "stream"},
    {"stream_options without stream", chat_with(R"("stream_options":{"include_usage":true})"),
     "stream_options"},
    {"stream_options no object", chat_with(R"("stream":true,"stream_options":true)"), "stream_options"},
    {"include_usage no boolean", chat_with(R"("stream":true,"stream_options":{"include_usage":1})"),
     "stream_options.include_usage"},
    {"top_logprobs without logprobs", chat_with(R"("top_logprobs":2)"), "top_logprobs"},
    {"top_logprobs too many", chat_with(R"("logprobs":true,"top_logprobs":21)"), "top_logprobs"},
    {"chat logprobs a number", chat_with(R"("logprobs":2)"), "logprobs"},
    {"completion logprobs too many", completion_with(R"("logprobs":21)"), "logprobs", false},
    {"completion logprobs true", completion_with(R"("logprobs":true)"), "logprobs", false},
    {"empty cache_salt", chat_with(R"("cache_salt":"")"), "cache_salt"},
    {"cache_salt", chat_with(R"("cache_salt":"x")"), "cache_salt"},
    {"case 28: logit_bias", chat_with(R"("logit_bias":{"191222":-100})"), "logit_bias"},
    {"presence_penalty", chat_with(R"("presence_penalty":0.5)"), "presence_penalty"},
    {"repetition_penalty", chat_with(R"("repetition_penalty":1.1)"), "repetition_penalty"},
    {"min_tokens", chat_with(R"("min_tokens":1)"), "min_tokens"},
    {"stop_token_ids", chat_with(R"("stop_token_ids":[2])"), "stop_token_ids"},
    {"echo", completion_with(R"("echo":true)"), "echo", false},
    {"best_of 2", completion_with(R"("best_of":2)"), "best_of", false},
    {"suffix", completion_with(R"("suffix":"x")"), "suffix", false},
    {"tools", chat_with(R"("tools":[{"type":"function"}])"), "tools"},
    {"case 39: response_format", chat_with(R"("response_format":{"type":"json_object"})"), "response_format"},
    {"response_format no object", chat_with(R"("response_format":"text")"), "response_format"},
    {"chat_template_kwargs", chat_with(R"("chat_template_kwargs":{"a":1})"), "chat_template_kwargs"},
    {"add_generation_prompt false", chat_with(R"("add_generation_prompt":false)"), "add_generation_prompt"},
    {"continue_final_message", chat_with(R"("continue_final_message":true)"), "continue_final_message"},
    {"user no string", chat_with(R"("user":5)"), "user"},
    {"messages missing", "{}", "messages"},
    {"messages empty", R"({"messages":[]})", "messages"},
    {"messages no list", R"({"messages":"hi"})", "messages"},
    {"message no object", R"({"messages":["hi"]})", "messages[0]"},
    {"role missing", R"({"messages":[{"content":"x"}]})", "messages[0].role"},
    {"role unknown", R"({"messages":[{"role":"robot","content":"x"}]})", "messages[0].role"},
    {"content missing", R"({"messages":[{"role":"user"}]})", "messages[0].content"},
    {"content a number", R"({"messages":[{"role":"user","content":5}]})", "messages[0].content"},
    {"image part", R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]})",
     "messages[0].content[0].type"},
    {"part without text", R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})",
     "messages[0].content[0].text"},
    {"tool calls", R"({"messages":[{"role":"assistant","tool_calls":[{}]}]})", "messages[0].tool_calls"},
    {"prompt missing", "{}", "prompt", false},
    {"prompt empty list", R"({"prompt":[]})", "prompt", false},
    {"prompt mixed", R"({"prompt":["a",1]})", "prompt", false},
    {"prompt ids mixed", R"({"prompt":[1,"a"]})", "prompt", false},
    {"prompt negative id", R"({"prompt":[-1]})", "prompt", false},
    {"prompt fraction", R"({"prompt":[1.5]})", "prompt", false},
    {"prompt empty inner list", R"({"prompt":[[]]})", "prompt", false},
    {"prompt an object", R"({"prompt":{}})", "prompt", false},
};

TEST(ParseRequestTest, WhatCannotBeHonouredIsRefusedByName) {
  for (const Refused& c : kRefused) {
    const ApiError error = c.is_chat ? chat_error(c.body) : completion_error(c.body);
    EXPECT_EQ(error.status, 400) << c.name;
    EXPECT_EQ(error.param, c.param) << c.name << ": " << error.message;
    EXPECT_FALSE(error.code.empty()) << c.name;
  }
}

TEST(ParseRequestTest, Case37BrokenBodies) {
  for (const char* body :
       {"", "{", "[]", "null", "5", "\"text\"", "{\"a\":}", "{}x", "\xff\xfe", "{\"a\":\"\x01\"}"}) {
    EXPECT_EQ(chat_error(body).status, 400) << body;
    EXPECT_EQ(completion_error(body).status, 400) << body;
  }
}

TEST(ParseRequestTest, Case16LoneSurrogatesAreNoText) {
  for (const char* escape : {R"(\ud800)", R"(\udc00)", R"(\ud800\ud800)", R"(a\udfffb)", R"(\ud800x)"}) {
    const std::string text = std::string("\"") + escape + "\"";
    EXPECT_EQ(chat_error(R"({"messages":[{"role":"user","content":)" + text + "}]}").status, 400) << escape;
    EXPECT_EQ(completion_error(R"({"prompt":)" + text + "}").status, 400) << escape;
    EXPECT_EQ(chat_error(chat_with(R"("stop":)" + text)).status, 400) << escape;
  }
  EXPECT_EQ(chat(R"({"messages":[{"role":"user","content":"\ud83d\ude00"}]})").messages[0].content,
            "\xF0\x9F\x98\x80");
}

TEST(ParseRequestTest, DeepNestingIsRefused) {
  EXPECT_EQ(chat_error(std::string(100000, '[')).status, 400);
  EXPECT_EQ(chat_error(chat_with("\"x\":" + std::string(5000, '[') + std::string(5000, ']'))).status, 400);
}

TEST(ParseRequestTest, TooManyMembersAreRefused) {
  std::string fields;
  for (int i = 0; i < 2000; ++i) fields += (i > 0 ? ",\"f" : "\"f") + std::to_string(i) + "\":0";
  EXPECT_EQ(chat_error(chat_with(fields)).status, 400);
}

TEST(ParseRequestTest, SequencesOfOneRequestAreBounded) {
  std::string prompts;
  for (int i = 0; i < 100; ++i) prompts += i > 0 ? ",\"x\"" : "\"x\"";
  EXPECT_EQ(completion_error(R"({"n":11,"prompt":[)" + prompts + "]}").param, "n");
}

// Whatever the bytes, the parser answers; asan watches the reads.
TEST(ParseRequestTest, MutatedBodiesAlwaysGetAnAnswer) {
  constexpr uint64_t kSeed = 424242;
  constexpr int kRounds = 20000;
  Rng rng(kSeed);
  const std::string originals[] = {
      chat_with(
          R"("n":2,"stop":["a"],"seed":12,"temperature":0.5,"stream":true,"stream_options":{"include_usage":true})"),
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"\ud83d\ude00 é"}]}],"logprobs":true})",
      completion_with(R"("logprobs":3,"max_tokens":4,"echo":false,"logit_bias":{})"),
      R"({"prompt":[[1,2],[3,4]]})"};
  constexpr std::string_view kStructure = "{}[]\",:\\0-e.nulltrue\xC3\xA9";
  RequestParser parser;
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::string body = originals[rng.below(4)];
    for (uint64_t changes = 1 + rng.below(3); changes > 0 && !body.empty(); --changes) {
      const size_t at = rng.below(body.size());
      const char with =
          rng.below(4) == 0 ? static_cast<char>(rng()) : kStructure[rng.below(kStructure.size())];
      switch (rng.below(3)) {
        case 0:
          body[at] = with;
          break;
        case 1:
          body.insert(at, 1, with);
          break;
        default:
          body.erase(at, 1 + rng.below(4));
      }
    }
    const auto as_chat = parser.chat(body);
    const auto as_completion = parser.completion(body);
    accepted += as_chat.index() == 0 || as_completion.index() == 0;
    if (const auto* error = std::get_if<ApiError>(&as_chat)) {
      ASSERT_EQ(error->status, 400) << "seed " << kSeed << ": " << body;
      ASSERT_FALSE(error_json(*error).empty());
    }
  }
  EXPECT_GT(accepted, 0) << "seed " << kSeed;
  EXPECT_LT(accepted, kRounds) << "seed " << kSeed;
}

}  // namespace
}  // namespace penstock::router
