#include "trainer/data/permutation.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock::trainer {
namespace {

TEST(Permutation, EveryIndexOnce) {
  for (const uint64_t size : {1U, 2U, 3U, 4U, 5U, 17U, 256U, 1000U, 4097U, 65537U}) {
    for (const uint64_t seed : {0U, 1U, 77U}) {
      const Permutation permutation(seed, size);
      std::vector<bool> seen(size);
      for (uint64_t i = 0; i < size; ++i) {
        const uint64_t value = permutation(i);
        ASSERT_LT(value, size);
        ASSERT_FALSE(seen[value]) << size << ", seed " << seed;
        seen[value] = true;
      }
    }
  }
}

TEST(Permutation, LooksShuffledAndDependsOnTheSeed) {
  constexpr uint64_t kSize = 10'000;
  const Permutation a(1, kSize), b(2, kSize);
  int64_t fixed = 0, rising = 0, equal = 0;
  for (uint64_t i = 0; i < kSize; ++i) {
    fixed += a(i) == i;
    equal += a(i) == b(i);
    if (i > 0) rising += a(i) > a(i - 1);
  }
  EXPECT_LT(fixed, 10);  // 1 expected
  EXPECT_LT(equal, 10);
  EXPECT_NEAR(static_cast<double>(rising), kSize / 2.0, 200);  // deviation about 29
}

TEST(Permutation, VeryLargeSizesNeedNoMemory) {
  const uint64_t size = (uint64_t{1} << 61) + 12345;
  const Permutation permutation(5, size);
  for (uint64_t i = 0; i < 100; ++i) EXPECT_LT(permutation(size - 1 - i), size);
}

}  // namespace
}  // namespace penstock::trainer
