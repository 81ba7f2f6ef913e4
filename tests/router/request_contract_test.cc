// Every field that clients know, by every JSON type: what is read, what is refused and by which name.
#include <gtest/gtest.h>

#include <algorithm>

#include "router/parse_request.h"

namespace penstock::router {
namespace {

enum On : int { kChatOnly = 1, kCompletionOnly = 2, kBothEndpoints = 3 };

std::string body_with(bool is_chat, const std::string& fields) {
  return (is_chat ? R"({"messages":[{"role":"user","content":"hi"}],)" : R"({"prompt":"hi",)") + fields + "}";
}

// The error, or one without a message when the request was read.
ApiError error_of(bool is_chat, const std::string& body) {
  RequestParser parser;
  if (is_chat) {
    auto parsed = parser.chat(body);
    return parsed.index() == 0 ? ApiError{} : std::get<ApiError>(parsed);
  }
  auto parsed = parser.completion(body);
  return parsed.index() == 0 ? ApiError{} : std::get<ApiError>(parsed);
}

std::string unknown_in(bool is_chat, const std::string& body) {
  RequestParser parser;
  if (is_chat) return std::get<ChatRequest>(parser.chat(body)).options.unknown_fields;
  return std::get<CompletionRequest>(parser.completion(body)).options.unknown_fields;
}

constexpr const char* kSamples[] = {"true", "1", "0.5", R"("x")", R"(["x"])", R"({"x":1})"};

struct ReadField {
  const char* name;
  int on;
  std::vector<std::string> accepted;  // of kSamples
  const char* with = "";              // what else the request needs
};

const ReadField kReadFields[] = {
    {"model", kBothEndpoints, {R"("x")"}},
    {"max_tokens", kBothEndpoints, {"1"}},
    {"max_completion_tokens", kChatOnly, {"1"}},
    {"temperature", kBothEndpoints, {"1", "0.5"}},
    {"top_p", kBothEndpoints, {"1", "0.5"}},
    {"min_p", kBothEndpoints, {"1", "0.5"}},
    {"top_k", kBothEndpoints, {"1"}},
    {"n", kBothEndpoints, {"1"}},
    {"seed", kBothEndpoints, {"1"}},
    {"stop", kBothEndpoints, {R"("x")", R"(["x"])"}},
    {"stream", kBothEndpoints, {"true"}},
    {"stream_options", kBothEndpoints, {R"({"x":1})"}, R"("stream":true,)"},
    {"logprobs", kChatOnly, {"true"}},
    {"logprobs", kCompletionOnly, {"1"}},
    {"top_logprobs", kChatOnly, {"1"}, R"("logprobs":true,)"},
    {"user", kBothEndpoints, {R"("x")"}},
    {"ignore_eos", kBothEndpoints, {"true"}},
    {"skip_special_tokens", kBothEndpoints, {"true"}},
    {"return_token_ids", kBothEndpoints, {"true"}},
    {"request_id", kBothEndpoints, {R"("x")"}},
};

template <typename Check>
void on_each_endpoint(int on, Check check) {
  if ((on & kChatOnly) != 0) check(true);
  if ((on & kCompletionOnly) != 0) check(false);
}

TEST(RequestContractTest, EveryFieldByEveryType) {
  for (const ReadField& field : kReadFields) {
    on_each_endpoint(field.on, [&](bool is_chat) {
      for (const char* sample : kSamples) {
        const std::string body =
            body_with(is_chat, field.with + ("\"" + std::string(field.name) + "\":" + sample));
        const ApiError error = error_of(is_chat, body);
        const bool wanted =
            std::find(field.accepted.begin(), field.accepted.end(), sample) != field.accepted.end();
        EXPECT_EQ(error.message.empty(), wanted) << body << ": " << error.message;
        if (wanted) continue;
        EXPECT_EQ(error.status, 400) << body;
        EXPECT_EQ(error.param, field.name) << body << ": " << error.message;
        EXPECT_NE(error.message.find(field.name), std::string::npos) << error.message;
      }
      const std::string null = body_with(is_chat, field.with + ("\"" + std::string(field.name) + "\":null"));
      EXPECT_EQ(error_of(is_chat, null).message, "") << null;
    });
  }
}

struct KnownField {
  const char* name;
  int on;
  std::vector<const char*> neutral;
  std::vector<const char*> asking;
};

// The fields of the contract that this version does not carry out.
const KnownField kKnownFields[] = {
    {"presence_penalty", kBothEndpoints, {"0", "0.0"}, {"0.5", "-1", R"("0")"}},
    {"frequency_penalty", kBothEndpoints, {"0", "0.0"}, {"0.5", "true"}},
    {"repetition_penalty", kBothEndpoints, {"1", "1.0"}, {"1.1", "0"}},
    {"logit_bias", kBothEndpoints, {"{}"}, {R"({"5":-100})", "5"}},
    {"min_tokens", kBothEndpoints, {"0"}, {"1", R"("x")"}},
    {"stop_token_ids", kBothEndpoints, {"[]"}, {"[2]", "2"}},
    {"include_stop_str_in_output", kBothEndpoints, {"false"}, {"true", "1"}},
    {"cache_salt", kBothEndpoints, {}, {R"("x")", "1"}},
    {"priority", kBothEndpoints, {"0"}, {"3", "-1"}},
    {"response_format",
     kBothEndpoints,
     {R"({"type":"text"})"},
     {R"({"type":"json_object"})", R"({"type":"json_schema","json_schema":{"schema":{"type":7}}})",
      R"("text")"}},
    {"guided_json", kBothEndpoints, {}, {"{}", R"("{}")"}},
    {"guided_regex", kBothEndpoints, {}, {R"("a+")"}},
    {"best_of", kBothEndpoints, {"1"}, {"2", "0"}},
    {"use_beam_search", kBothEndpoints, {"false"}, {"true"}},
    {"prompt_logprobs", kBothEndpoints, {}, {"1", "0"}},
    {"echo", kCompletionOnly, {"false"}, {"true", "1"}},
    {"suffix", kCompletionOnly, {R"("")"}, {R"("x")"}},
    {"add_special_tokens", kCompletionOnly, {"true"}, {"false"}},
    {"tools", kChatOnly, {"[]"}, {R"([{"type":"function","function":{"name":"f"}}])"}},
    {"tool_choice", kChatOnly, {R"("none")", R"("auto")"}, {R"("required")", "{}"}},
    {"chat_template", kChatOnly, {}, {R"("x")"}},
    {"chat_template_kwargs", kChatOnly, {"{}"}, {R"({"a":1})"}},
    {"add_generation_prompt", kChatOnly, {"true"}, {"false"}},
    {"continue_final_message", kChatOnly, {"false"}, {"true"}},
};

TEST(RequestContractTest, WhatIsNotCarriedOutYetIsRefusedByNameUnlessNeutral) {
  for (const KnownField& field : kKnownFields) {
    on_each_endpoint(field.on, [&](bool is_chat) {
      const auto with = [&](const char* value) {
        return body_with(is_chat, "\"" + std::string(field.name) + "\":" + value);
      };
      for (const char* value : field.neutral)
        EXPECT_EQ(error_of(is_chat, with(value)).message, "") << with(value);
      EXPECT_EQ(error_of(is_chat, with("null")).message, "") << with("null");
      for (const char* value : field.asking) {
        const ApiError error = error_of(is_chat, with(value));
        EXPECT_EQ(error.status, 400) << with(value);
        EXPECT_EQ(error.param, field.name) << with(value);
        EXPECT_EQ(error.code, "unsupported_parameter") << with(value);
        EXPECT_NE(error.message.find(std::string(field.name) + ":"), std::string::npos) << error.message;
      }
    });
  }
}

TEST(RequestContractTest, UnknownFieldsAreIgnoredAndListedForTheLog) {
  EXPECT_EQ(unknown_in(true, body_with(true, R"("temperature":1,"user":"u","tools":[])")), "");
  EXPECT_EQ(unknown_in(true, body_with(true, R"("store":true,"metadata":{"a":1})")), "store,metadata");
  EXPECT_EQ(unknown_in(false, body_with(false, R"("max_completion_tokens":3,"odd\nname":1)")),
            "max_completion_tokens,?")
      << "no line of the log is the client's";
  std::string many;
  for (int i = 0; i < 20; ++i) many += (i > 0 ? ",\"f" : "\"f") + std::to_string(i) + "\":0";
  EXPECT_EQ(unknown_in(true, body_with(true, many)), "f0,f1,f2,f3,f4,f5,f6,f7 ...");
}

TEST(RequestContractTest, KeepAliveIsAskedForInSeconds) {
  RequestParser parser;
  const auto options = [&](const std::string& stream_options) {
    return std::get<ChatRequest>(
               parser.chat(body_with(true, R"("stream":true,"stream_options":)" + stream_options)))
        .options;
  };
  EXPECT_EQ(options("{}").keep_alive_s, 0);
  EXPECT_EQ(options(R"({"keep_alive_s":15})").keep_alive_s, 15);
  for (const char* bad : {"0", "601", "true", R"("15")"}) {
    const ApiError error = error_of(
        true, body_with(true, R"("stream":true,"stream_options":{"keep_alive_s":)" + std::string(bad) + "}"));
    EXPECT_EQ(error.param, "stream_options.keep_alive_s") << bad;
  }
}

}  // namespace
}  // namespace penstock::router
