// Which bytes of a handoff go where, for equal layouts. Pure arithmetic over block lists and pool memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "topology/kv_layout.h"

namespace penstock {

// Blocks that lie side by side in the source pool and in the target pool: one put in each plane.
struct BlockRun {
  uint32_t position = 0;  // of the first one in the sequence
  uint32_t count = 0;
};

// The longest run from `position` on, at most `count_max` blocks (at least one) and not past `end`.
[[nodiscard]] BlockRun next_run(std::span<const BlockId> source, std::span<const BlockId> target,
                                uint32_t position, uint32_t end, uint32_t count_max);

// Zeroes what lies behind `used` tokens in a block of a key (value) plane: digests are defined, and nothing
// of another request leaves.
void zero_unused_keys(std::byte* block, const KvLayout& layout, int32_t used);
void zero_unused_values(std::byte* block, const KvLayout& layout, int32_t used);

}  // namespace penstock
