#include "scheduler/batch/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/rng.h"

namespace penstock::scheduler {
namespace {

int runs(const std::vector<BlockId>& blocks) {
  int count = blocks.empty() ? 0 : 1;
  for (size_t i = 1; i < blocks.size(); ++i)
    if (blocks[i].value() != blocks[i - 1].value() + 1) ++count;
  return count;
}

std::vector<BlockId> take(BlockPool& pool, int32_t count) {
  std::vector<BlockId> table;
  EXPECT_TRUE(pool.allocate(count, BlockState::kHeld, table));
  EXPECT_EQ(table.size(), static_cast<size_t>(count));
  return table;
}

TEST(BlockPool, GivesOneRunWhileOneExists) {
  BlockPool pool(200);
  const auto a = take(pool, 70), b = take(pool, 8), c = take(pool, 100);
  EXPECT_EQ(runs(a), 1);
  EXPECT_EQ(runs(b), 1);
  EXPECT_EQ(runs(c), 1);
  EXPECT_EQ(pool.free_count(), 22);
  pool.check_invariants();
}

TEST(BlockPool, PrefersTheSmallestRunThatFits) {
  BlockPool pool(100);
  const auto a = take(pool, 10), gap8 = take(pool, 8), b = take(pool, 10), gap6 = take(pool, 6),
             c = take(pool, 20);
  pool.move(gap8, BlockState::kHeld, BlockState::kFree);
  pool.move(gap6, BlockState::kHeld, BlockState::kFree);
  EXPECT_EQ(take(pool, 6).front(), gap6.front());  // not the 8-run, not the tail
  EXPECT_EQ(take(pool, 7).front(), gap8.front());
}

TEST(BlockPool, FallsBackToTheLargestRuns) {
  BlockPool pool(64);
  std::vector<BlockId> all = take(pool, 64);
  const auto give = [&](size_t first, size_t count) {
    pool.move(std::span(all).subspan(first, count), BlockState::kHeld, BlockState::kFree);
  };
  give(3, 4), give(20, 9), give(40, 2), give(63, 1);
  const auto table = take(pool, 14);
  EXPECT_EQ(runs(table), 3);  // 9 + 4 + 1
  EXPECT_EQ(table[0].value(), 20u);
  EXPECT_EQ(table[9].value(), 3u);
}

TEST(BlockPool, GrowthContinuesTheRun) {
  BlockPool pool(32);
  std::vector<BlockId> table = take(pool, 4);
  const auto hole = take(pool, 2);
  const auto other = take(pool, 1);
  pool.move(hole, BlockState::kHeld, BlockState::kFree);
  ASSERT_TRUE(pool.allocate(1, BlockState::kHeld, table));
  EXPECT_EQ(table.back(), hole.front());
  EXPECT_EQ(runs(table), 1);
}

TEST(BlockPool, RefusesWithoutChange) {
  BlockPool pool(10);
  std::vector<BlockId> table = take(pool, 6);
  EXPECT_FALSE(pool.allocate(5, BlockState::kHeld, table));
  EXPECT_EQ(table.size(), 6u);
  EXPECT_EQ(pool.free_count(), 4);
}

TEST(BlockPoolDeathTest, CatchesAWrongState) {
  BlockPool pool(10);
  const auto table = take(pool, 3);
  EXPECT_DEATH(pool.move(table, BlockState::kLeased, BlockState::kFree), "state == from");
  pool.move(table, BlockState::kHeld, BlockState::kFree);
  EXPECT_DEATH(pool.move(table, BlockState::kHeld, BlockState::kFree), "state == from");  // double free
}

TEST(BlockPool, RandomLifeKeepsEveryBlockOnce) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    BlockPool pool(static_cast<int32_t>(rng.between(1, 300)));
    std::vector<std::pair<BlockState, std::vector<BlockId>>> owners;
    for (int i = 0; i < 400; ++i) {
      const auto choice = rng.below(3);
      if (choice == 0 || owners.empty()) {
        std::vector<BlockId> table;
        if (pool.allocate(static_cast<int32_t>(rng.between(1, 20)), BlockState::kLeased, table))
          owners.emplace_back(BlockState::kLeased, table);
      } else {
        const auto victim = static_cast<size_t>(rng.below(owners.size()));
        auto& [state, table] = owners[victim];
        const BlockState to = choice == 1 ? BlockState::kFree : BlockState::kQuarantined;
        pool.move(table, state, to);
        state = to;
        if (to == BlockState::kFree) owners.erase(owners.begin() + static_cast<int64_t>(victim));
      }
      pool.check_invariants();
      std::map<uint32_t, int> seen;
      for (const auto& owner : owners)
        for (const BlockId block : owner.second) ASSERT_EQ(++seen[block.value()], 1);
      ASSERT_EQ(static_cast<int32_t>(seen.size()), pool.size() - pool.free_count());
    }
  }
}

}  // namespace
}  // namespace penstock::scheduler
