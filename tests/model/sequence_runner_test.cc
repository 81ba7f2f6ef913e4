#include "model/sequence_runner.h"

#include <gtest/gtest.h>

#include "tests/model/golden.h"
#include "tests/model/loaded_model.h"

namespace penstock {
namespace {

TEST(SequenceRunner, VisitsThePositionsThatWereAsked) {
  LoadedModel loaded(golden::path("llama_tied"), {});
  SequenceRunner runner = loaded.runner(KvDtype::kBf16, 4);
  const std::vector<TokenId> tokens(10, 3);
  std::vector<int64_t> seen;
  const auto visit = [&](int64_t position, std::span<const float> row) {
    EXPECT_EQ(row.size(), size_t{512});
    seen.push_back(position);
  };
  ASSERT_TRUE(runner.feed(tokens, SequenceRunner::Logits::kNone, visit).ok());
  EXPECT_TRUE(seen.empty());
  ASSERT_TRUE(runner.feed(tokens, SequenceRunner::Logits::kLast, visit).ok());
  EXPECT_EQ(seen, (std::vector<int64_t>{19}));
  ASSERT_TRUE(runner.feed(std::span(tokens).first(5), SequenceRunner::Logits::kAll, visit).ok());
  EXPECT_EQ(seen, (std::vector<int64_t>{19, 20, 21, 22, 23, 24}));
  EXPECT_EQ(runner.position(), 25);
}

TEST(SequenceRunner, RefusesBadIdsAndTooManyTokens) {
  LoadedModel loaded(golden::path("llama_tied"), {});
  SequenceRunner runner = loaded.runner(KvDtype::kBf16, 4, 64);
  const auto visit = [](auto, auto) {};
  for (const TokenId bad : {-1, 512}) {
    const auto status = runner.feed(std::vector<TokenId>{1, bad}, SequenceRunner::Logits::kNone, visit);
    EXPECT_EQ(status.code(), Error::kInvalidArgument);
    EXPECT_NE(status.message().find(std::to_string(bad)), std::string::npos);
  }
  EXPECT_TRUE(runner.feed(std::vector<TokenId>(64, 1), SequenceRunner::Logits::kNone, visit).ok());
  const auto status = runner.feed(std::vector<TokenId>{1}, SequenceRunner::Logits::kNone, visit);
  EXPECT_EQ(status.message(), "65 tokens exceed the context of 64");
}

}  // namespace
}  // namespace penstock
