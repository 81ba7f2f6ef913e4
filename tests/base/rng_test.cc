#include "base/rng.h"

#include <gtest/gtest.h>

#include <set>

namespace penstock {
namespace {

// Known answers of Random123 1.14 (philox4x32-10): all zero, and all ones.
TEST(CounterRandom, MatchesPublishedVectors) {
  const std::array<uint32_t, 4> zeros = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  EXPECT_EQ(counter_random(0, 0, 0), zeros);
  const std::array<uint32_t, 4> ones = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
  EXPECT_EQ(counter_random(~0ULL, ~0ULL, ~0ULL), ones);
}

TEST(Rng, SameSeedSameSequence) {
  Rng a(7), b(7), c(8);
  const uint64_t first = a();
  EXPECT_EQ(first, b());
  EXPECT_NE(first, c());
}

TEST(Rng, BelowStaysBelowAndReachesEveryValue) {
  Rng rng(1);
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(rng.below(7));
  EXPECT_EQ(seen.size(), 7u);
  EXPECT_EQ(*seen.rbegin(), 6u);
}

TEST(Rng, UniformHasTheMeanOfAHalf) {
  Rng rng(2);
  double sum = 0;
  for (int i = 0; i < 100000; ++i) sum += rng.uniform();
  EXPECT_NEAR(sum / 100000, 0.5, 0.005);  // five standard errors
}

}  // namespace
}  // namespace penstock
