#include "topology/kv_layout.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/rng.h"

namespace penstock {
namespace {

constexpr KvLayout kSmolLm2{.layers = 30, .kv_heads = 3, .head_dim = 64};

TEST(KvLayout, SizesOfSmolLm2) {
  EXPECT_EQ(kSmolLm2.block_bytes(), 64 * 3 * 64 * 2);
  EXPECT_EQ(kSmolLm2.planes(), 60);
  EXPECT_EQ(kSmolLm2.block_bytes_all(), 1474560);
  EXPECT_EQ(kSmolLm2.token_bytes(), 23040);
  EXPECT_EQ(kSmolLm2.blocks_in(int64_t{256} << 20), 182);
  EXPECT_EQ(kSmolLm2.blocks_for(0), 0);
  EXPECT_EQ(kSmolLm2.blocks_for(64), 1);
  EXPECT_EQ(kSmolLm2.blocks_for(65), 2);
  EXPECT_EQ(kSmolLm2.plane_offset(0, true, 100), 100 * 24576);
  EXPECT_EQ(kSmolLm2.block_offset(2, false, 7, 100), (400 + 7) * 24576);
}

// The arrangement as a reader of the header would write it, step by step.
TEST(KvLayout, ElementsLieAsTheHeaderSays) {
  EXPECT_EQ(kSmolLm2.key_element(0, 0, 0), 0);
  EXPECT_EQ(kSmolLm2.key_element(0, 1, 0), 1);         // next token: next lane of the column
  EXPECT_EQ(kSmolLm2.key_element(0, 0, 1), 16);        // next dimension: next row of the column
  EXPECT_EQ(kSmolLm2.key_element(0, 16, 0), 16 * 64);  // next column
  EXPECT_EQ(kSmolLm2.key_element(1, 0, 0), 64 * 64);
  EXPECT_EQ(kSmolLm2.value_element(0, 1, 0), 64);
  EXPECT_EQ(kSmolLm2.value_element(2, 3, 5), 2 * 4096 + 3 * 64 + 5);
}

// Blocks of all planes cover the pool exactly once, and elements cover each block exactly once.
TEST(KvLayout, ExactCoverWithoutOverlap) {
  Rng rng(20261201);
  for (int round = 0; round < 50; ++round) {
    const KvLayout layout{.layers = static_cast<int32_t>(rng.between(1, 5)),
                          .kv_heads = static_cast<int32_t>(rng.between(1, 4)),
                          .head_dim = static_cast<int32_t>(rng.between(1, 9)),
                          .block_tokens = static_cast<int32_t>(16 * rng.between(1, 4)),
                          .dtype = rng.below(2) == 0 ? KvDtype::kBf16 : KvDtype::kF32};
    ASSERT_TRUE(layout.validate().ok());
    const int64_t blocks = rng.between(1, 6);
    std::set<int64_t> starts;
    for (int32_t layer = 0; layer < layout.layers; ++layer)
      for (const bool is_value : {false, true})
        for (int64_t block = 0; block < blocks; ++block)
          starts.insert(layout.block_offset(layer, is_value, block, blocks));
    ASSERT_EQ(static_cast<int64_t>(starts.size()), layout.planes() * blocks);
    int64_t expected = 0;
    for (const int64_t start : starts) {
      EXPECT_EQ(start, expected);
      expected += layout.block_bytes();
    }
    EXPECT_EQ(expected, layout.pool_bytes(blocks));

    std::vector<int> keys(static_cast<size_t>(layout.block_bytes() / layout.element_bytes()));
    std::vector<int> values(keys.size());
    for (int32_t head = 0; head < layout.kv_heads; ++head)
      for (int32_t token = 0; token < layout.block_tokens; ++token)
        for (int32_t dim = 0; dim < layout.head_dim; ++dim) {
          ++keys.at(static_cast<size_t>(layout.key_element(head, token, dim)));
          ++values.at(static_cast<size_t>(layout.value_element(head, token, dim)));
        }
    EXPECT_EQ(keys, std::vector<int>(keys.size(), 1));
    EXPECT_EQ(values, keys);
  }
}

TEST(KvLayout, HashChangesWithEveryField) {
  std::set<LayoutHash> hashes = {kSmolLm2.hash()};
  const auto distinct = [&](auto change) {
    KvLayout layout = kSmolLm2;
    change(layout);
    return hashes.insert(layout.hash()).second;
  };
  EXPECT_TRUE(distinct([](KvLayout& l) { l.layers = 31; }));
  EXPECT_TRUE(distinct([](KvLayout& l) { l.kv_heads = 4; }));
  EXPECT_TRUE(distinct([](KvLayout& l) { l.head_dim = 65; }));
  EXPECT_TRUE(distinct([](KvLayout& l) { l.block_tokens = 32; }));
  EXPECT_TRUE(distinct([](KvLayout& l) { l.dtype = KvDtype::kF32; }));
  EXPECT_TRUE(distinct([](KvLayout& l) { std::swap(l.kv_heads, l.head_dim); }));
  EXPECT_FALSE(distinct([](KvLayout&) {}));
}

TEST(KvLayout, ImpossibleSizesAreRefused) {
  for (const KvLayout& layout :
       {KvLayout{}, KvLayout{.layers = 1, .kv_heads = -1, .head_dim = 64},
        KvLayout{.layers = 1, .kv_heads = 1, .head_dim = 64, .block_tokens = 24},
        KvLayout{.layers = 1, .kv_heads = 1 << 30, .head_dim = 1 << 30, .block_tokens = 1 << 30}})
    EXPECT_FALSE(layout.validate().ok()) << layout.describe();
  const Status odd = KvLayout{.layers = 2, .kv_heads = 1, .head_dim = 8, .block_tokens = 24}.validate();
  EXPECT_EQ(odd.message(),
            "KV layout (2 layers, 1 KV heads of 8, blocks of 24 tokens, bf16): block_tokens must be a "
            "multiple of 16");
}

}  // namespace
}  // namespace penstock
