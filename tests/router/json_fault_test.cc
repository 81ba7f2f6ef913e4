#include "router/json_fault.h"

#include <gtest/gtest.h>

namespace penstock::router {
namespace {

TEST(JsonFaultTest, ThePlaceIsNamed) {
  const struct {
    const char* body;
    const char* expected;
  } cases[] = {
      {"", "line 1, column 1: it ends too early."},
      {"{", "line 1, column 2: it ends too early."},
      {"{\"a\":}", "line 1, column 6, in a: unexpected `}`."},
      {"{}x", "line 1, column 3: unexpected `x`."},
      {"{\n  \"messages\": [\n    {\"content\": tru}\n  ]\n}",
       "line 3, column 20, in messages[0].content: unexpected `}`."},
      {"{\"a\":[1,2,,3]}", "line 1, column 11, in a[2]: unexpected `,`."},
      {"{'a':1}", "line 1, column 2: unexpected `'`."},
      {"{\"a\":\"\x01\"}", "line 1, column 7, in a: a byte that may not stand there."},
      {"{\"a\":\"\xff\"}", "line 1, column 7, in a: a byte that may not stand there."},
  };
  for (const auto& c : cases) {
    const ApiError error = json_fault(c.body, "?");
    EXPECT_EQ(error.status, 400);
    EXPECT_EQ(error.code, "invalid_body");
    EXPECT_EQ(error.message, std::string("The body is not valid JSON at ") + c.expected) << c.body;
  }
}

TEST(JsonFaultTest, NumbersThatNothingHoldsAreNamed) {
  for (const char* number : {"100000000000000000000", "-9223372036854775809", "1e999"}) {
    const ApiError error = json_fault(R"({"n":1,"sampling":[{"seed":)" + std::string(number) + "}]}", "?");
    EXPECT_EQ(error.param, "sampling[0].seed") << number;
    EXPECT_EQ(error.code, "invalid_value");
  }
}

TEST(JsonFaultTest, WhatOnlySimdjsonMindsKeepsItsReason) {
  EXPECT_NE(json_fault(std::string(5000, '[') + std::string(5000, ']'), "too deep").message.find("too deep"),
            std::string::npos);
  EXPECT_NE(json_fault("{}", "odd").message.find("odd"), std::string::npos);
}

}  // namespace
}  // namespace penstock::router
