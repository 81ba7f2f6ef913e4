#include "router/api_keys.h"

#include <gtest/gtest.h>

#include "tests/router/tiny_model.h"

namespace penstock::router {
namespace {

class ApiKeysTest : public ::testing::Test {
 protected:
  Result<ApiKeys> load(const std::string& text) {
    folder_.write("keys", text);
    return ApiKeys::load(folder_.dir() + "/keys");
  }
  TinyModel folder_;  // for its temporary folder
};

TEST_F(ApiKeysTest, SeveralKeysAndComments) {
  const auto keys = load("# ours\n\nsecret-1\r\n  secret-2  \nsecret-3 keep_alive_s=30\n");
  ASSERT_TRUE(keys.ok()) << keys.message();
  EXPECT_TRUE(keys->required());
  for (const char* key : {"secret-1", "secret-2", "secret-3"})
    EXPECT_TRUE(keys->accept("Bearer " + std::string(key))) << key;
  for (const char* header :
       {"", "Bearer", "Bearer ", "Bearer secret", "Bearer secret-11", "Basic secret-1", "bearer secret-1",
        "secret-1", "Bearer # ours", "Bearer secret-3 keep_alive_s=30"})
    EXPECT_FALSE(keys->accept(header)) << header;
  EXPECT_EQ(keys->keep_alive_s("Bearer secret-1"), 0);
  EXPECT_EQ(keys->keep_alive_s("Bearer secret-3"), 30);
  EXPECT_EQ(keys->keep_alive_s("Bearer nobody"), 0);
}

TEST_F(ApiKeysTest, WithoutAFileEverybodyIsWelcome) {
  const ApiKeys none;
  EXPECT_FALSE(none.required());
  EXPECT_TRUE(none.accept(""));
  EXPECT_TRUE(none.accept("Bearer whatever a client sends"));
}

TEST_F(ApiKeysTest, AFileThatWouldOpenTheDoorIsRefused) {
  EXPECT_NE(load("# nothing\n\n").message().find("holds no key"), std::string::npos);
  for (const char* line : {"key word", "key keep_alive_s=", "key keep_alive_s=0", "key keep_alive_s=601",
                           "key keep_alive_s=5x", "key keep_alive=5"}) {
    const auto keys = load("good\n" + std::string(line) + "\n");
    ASSERT_FALSE(keys.ok()) << line;
    EXPECT_NE(keys.message().find("keys:2: "), std::string::npos) << keys.message();
  }
}

}  // namespace
}  // namespace penstock::router
