#include "router/api_error.h"

#include <gtest/gtest.h>

namespace penstock::router {
namespace {

TEST(ApiErrorTest, ShapeIsExact) {
  EXPECT_EQ(error_json(bad_field("n", "n must be from 1 to 128, not 0.")),
            R"({"error":{"message":"n must be from 1 to 128, not 0.","type":"invalid_request_error",)"
            R"("param":"n","code":"invalid_value"}})");
  EXPECT_EQ(error_json(invalid_api_key()),
            R"({"error":{"message":"Incorrect or missing API key; send it as `Authorization: Bearer KEY`.",)"
            R"("type":"invalid_request_error","param":null,"code":"invalid_api_key"}})");
}

TEST(ApiErrorTest, StatusesAndCodes) {
  EXPECT_EQ(model_not_found("x").status, 404);
  EXPECT_EQ(model_not_found("x").code, "model_not_found");
  EXPECT_EQ(model_not_found("x").param, "model");
  EXPECT_EQ(method_not_allowed("GET", "/").status, 405);
  EXPECT_EQ(body_too_large(5).status, 413);
  EXPECT_EQ(unsupported_media_type("").status, 415);
  EXPECT_EQ(overloaded("", 1).status, 429);
  EXPECT_EQ(unavailable("", 1).status, 503);
}

TEST(ApiErrorTest, Case34ContextErrorHasTheTrueCounts) {
  const ApiError error = context_length_exceeded(8192, 9001, "messages");
  EXPECT_EQ(error.code, "context_length_exceeded");
  EXPECT_NE(error.message.find("maximum context length is 8192 tokens"), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("9001 tokens"), std::string::npos) << error.message;
}

TEST(ApiErrorTest, RetryAfterIsAHeader) {
  const HttpResponse response = error_response(overloaded("busy", 7));
  EXPECT_EQ(response.status, 429);
  ASSERT_EQ(response.headers.size(), 1u);
  EXPECT_EQ(response.headers[0], (std::pair<std::string, std::string>("retry-after", "7")));
}

TEST(ApiErrorTest, IllFormedTextDoesNotThrow) {
  EXPECT_NE(error_json(bad_field("x", "\xff\xfe")).find("\xEF\xBF\xBD"), std::string::npos);
}

}  // namespace
}  // namespace penstock::router
