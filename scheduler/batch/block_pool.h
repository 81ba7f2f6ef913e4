// Which KV block of a node belongs to whom. Pure bookkeeping: no memory is touched.
//
// One owner thread (the batch scheduler's). All memory is allocated at construction.
// Every block is in exactly one state: free + held + leased + quarantined = pool.
//   held         the owner alone reads and writes it
//   leased       a remote party may read (P's source) or write (D's reservation) it
//   quarantined  the owner is gone, the remote writer is not known to be done
//
// Allocation prefers contiguous runs, because each run is one put per layer and plane: best fit over the free
// bitmap (smallest run that holds the request; else the largest runs first). Cost: one pass over pool / 64
// words.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace penstock::scheduler {

enum class BlockState : uint8_t { kFree, kHeld, kLeased, kQuarantined };

class BlockPool {
 public:
  explicit BlockPool(int32_t block_count);

  int32_t size() const { return static_cast<int32_t>(states_.size()); }
  int32_t count(BlockState state) const { return counts_[static_cast<int>(state)]; }
  int32_t free_count() const { return count(BlockState::kFree); }
  BlockState state(BlockId block) const { return states_[block.value()]; }

  // Appends `count` free blocks to `table`, in state `state`; false and nothing changed when there are too
  // few. The block after table.back() is taken when it is free, so that a growing sequence stays one run.
  [[nodiscard]] bool allocate(int32_t count, BlockState state, std::vector<BlockId>& table);

  // Moves blocks from one state to another; CHECKs that each is in `from`. To kFree: they may be handed out
  // again.
  void move(std::span<const BlockId> blocks, BlockState from, BlockState to);

  // Recounts everything; CHECKs counters and bitmap. O(pool); for tests and the simulator.
  void check_invariants() const;

 private:
  struct Run {
    int32_t first = 0, length = 0;
  };
  // Smallest free run of at least `count` blocks, else the largest; length 0 when the pool is full.
  Run find_run(int32_t count) const;
  void take(int32_t block, BlockState state, std::vector<BlockId>& table);

  std::vector<BlockState> states_;
  std::vector<uint64_t> free_bits_;  // bit set: free
  int32_t counts_[4] = {0, 0, 0, 0};
};

}  // namespace penstock::scheduler
