#include "scheduler/batch/block_pool.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace penstock::scheduler {

namespace {
constexpr int32_t kWordBits = 64;
}

BlockPool::BlockPool(int32_t block_count) {
  CHECK_GT(block_count, 0);
  states_.assign(static_cast<size_t>(block_count), BlockState::kFree);
  free_bits_.assign(static_cast<size_t>((block_count + kWordBits - 1) / kWordBits), ~uint64_t{0});
  if (const int32_t rest = block_count % kWordBits; rest != 0)
    free_bits_.back() = (uint64_t{1} << rest) - 1;  // bits past the pool are never free
  counts_[static_cast<int>(BlockState::kFree)] = block_count;
}

bool BlockPool::allocate(int32_t count, BlockState state, std::vector<BlockId>& table) {
  CHECK(state != BlockState::kFree);
  if (count > free_count()) return false;
  // Growth continues the sequence's last run as far as it is free.
  while (count > 0 && !table.empty()) {
    const auto next = static_cast<int32_t>(table.back().value()) + 1;
    if (next >= size() || states_[static_cast<size_t>(next)] != BlockState::kFree) break;
    take(next, state, table);
    --count;
  }
  while (count > 0) {
    const Run run = find_run(count);
    const int32_t taken = std::min(run.length, count);
    CHECK_GT(taken, 0);
    for (int32_t i = 0; i < taken; ++i) take(run.first + i, state, table);
    count -= taken;
  }
  return true;
}

void BlockPool::move(std::span<const BlockId> blocks, BlockState from, BlockState to) {
  for (const BlockId block : blocks) {
    CHECK_LT(static_cast<int64_t>(block.value()), size());
    BlockState& state = states_[block.value()];
    CHECK(state == from);
    state = to;
    if (to == BlockState::kFree)
      free_bits_[block.value() / kWordBits] |= uint64_t{1} << (block.value() % kWordBits);
  }
  CHECK(from != BlockState::kFree);
  counts_[static_cast<int>(from)] -= static_cast<int32_t>(blocks.size());
  counts_[static_cast<int>(to)] += static_cast<int32_t>(blocks.size());
}

void BlockPool::take(int32_t block, BlockState state, std::vector<BlockId>& table) {
  states_[static_cast<size_t>(block)] = state;
  free_bits_[static_cast<size_t>(block / kWordBits)] &= ~(uint64_t{1} << (block % kWordBits));
  --counts_[static_cast<int>(BlockState::kFree)];
  ++counts_[static_cast<int>(state)];
  table.push_back(BlockId(static_cast<uint32_t>(block)));
}

BlockPool::Run BlockPool::find_run(int32_t count) const {
  Run best, largest, current;
  const auto close = [&] {
    if (current.length > largest.length) largest = current;
    if (current.length >= count && (best.length == 0 || current.length < best.length)) best = current;
    current.length = 0;
  };
  for (size_t word = 0; word < free_bits_.size(); ++word) {
    const uint64_t bits = free_bits_[word];
    const auto base = static_cast<int32_t>(word) * kWordBits;
    for (int32_t bit = 0; bit < kWordBits;) {
      const uint64_t rest = bits >> bit;
      if (rest == 0) {
        close();
        break;
      }
      if (const int32_t gap = std::countr_zero(rest); gap > 0) {
        close();
        bit += gap;
      }
      const int32_t ones = std::min(std::countr_one(bits >> bit), kWordBits - bit);
      if (current.length == 0) current.first = base + bit;
      current.length += ones;
      bit += ones;
    }
    if (best.length == count) return best;  // nothing fits better
  }
  close();
  return best.length > 0 ? best : largest;
}

void BlockPool::check_invariants() const {
  int32_t counts[4] = {0, 0, 0, 0};
  for (int32_t block = 0; block < size(); ++block) {
    const BlockState state = states_[static_cast<size_t>(block)];
    ++counts[static_cast<int>(state)];
    const bool free_bit =
        (free_bits_[static_cast<size_t>(block / kWordBits)] >> (block % kWordBits) & 1) != 0;
    CHECK_EQ(free_bit, state == BlockState::kFree);
  }
  for (int i = 0; i < 4; ++i) CHECK_EQ(counts[i], counts_[i]);
  CHECK_EQ(counts[0] + counts[1] + counts[2] + counts[3], size());
}

}  // namespace penstock::scheduler
