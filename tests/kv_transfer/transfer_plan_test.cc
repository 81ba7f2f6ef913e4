#include "kv_transfer/transfer_plan.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"
#include "kv_transfer/block_digest.h"

namespace penstock {
namespace {

std::vector<BlockId> ids(std::initializer_list<uint32_t> values) {
  std::vector<BlockId> blocks;
  for (uint32_t value : values) blocks.emplace_back(value);
  return blocks;
}

TEST(TransferPlan, RunsAreContiguousOnBothSides) {
  const auto source = ids({4, 5, 6, 7, 20, 21});
  const auto target = ids({1, 2, 3, 9, 10, 11});
  EXPECT_EQ(next_run(source, target, 0, 6, 100).count, 3u);  // the target breaks
  EXPECT_EQ(next_run(source, target, 3, 6, 100).count, 1u);  // the source breaks
  EXPECT_EQ(next_run(source, target, 4, 6, 100).count, 2u);
  EXPECT_EQ(next_run(source, target, 0, 6, 2).count, 2u);    // the limit of a put
  EXPECT_EQ(next_run(source, target, 0, 2, 100).count, 2u);  // not ready yet
}

TEST(TransferPlan, ZeroFillLeavesUsedTokensAlone) {
  for (const KvDtype dtype : {KvDtype::kBf16, KvDtype::kF32}) {
    const KvLayout layout{1, 3, 16, 64, dtype};
    const auto element = static_cast<size_t>(layout.element_bytes());
    for (int32_t used = 1; used <= layout.block_tokens; ++used) {
      for (const bool values : {false, true}) {
        std::vector<std::byte> block(static_cast<size_t>(layout.block_bytes()), std::byte{0xAB});
        if (values) zero_unused_values(block.data(), layout, used);
        if (!values) zero_unused_keys(block.data(), layout, used);
        for (int32_t head = 0; head < layout.kv_heads; ++head) {
          for (int32_t token = 0; token < layout.block_tokens; ++token) {
            const int64_t index =
                values ? layout.value_element(head, token, 5) : layout.key_element(head, token, 5);
            const std::byte expected = token < used ? std::byte{0xAB} : std::byte{0};
            ASSERT_EQ(block[static_cast<size_t>(index) * element], expected)
                << used << " " << head << " " << token;
            ASSERT_EQ(block[static_cast<size_t>(index) * element + element - 1], expected);
          }
        }
      }
    }
  }
}

TEST(BlockDigest, OrderOfFillingDoesNotMatterAndEveryBlockDoes) {
  TransferDigest forward(4, 3), backward(4, 3), other(4, 3);
  for (size_t i = 0; i < 12; ++i) {
    forward.set(i / 3, i % 3, mix64(i));
    backward.set((11 - i) / 3, (11 - i) % 3, mix64(11 - i));
    other.set(i / 3, i % 3, mix64(i == 7 ? 99 : i));
  }
  EXPECT_EQ(forward.combined(), backward.combined());
  EXPECT_NE(forward.combined(), other.combined());
}

TEST(BlockDigest, IsTheSameOnEveryMachine) {
  std::vector<std::byte> data(24576);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(mix64(i));
  const uint64_t digest = block_digest(data.data(), data.size());
  EXPECT_EQ(digest, block_digest(data.data(), data.size()));
  EXPECT_EQ(block_digest(data.data(), 0), 0x2D06800538D394C2ULL);  // XXH3-64 of nothing, as published
  data[20000] ^= std::byte{1};
  EXPECT_NE(digest, block_digest(data.data(), data.size()));
}

}  // namespace
}  // namespace penstock
