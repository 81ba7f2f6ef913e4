#include "kv_transfer/transfer_plan.h"

#include <algorithm>
#include <cstring>

namespace penstock {

BlockRun next_run(std::span<const BlockId> source, std::span<const BlockId> target, uint32_t position,
                  uint32_t end, uint32_t count_max) {
  BlockRun run{position, 1};
  while (run.count < count_max && position + run.count < end) {
    const uint32_t next = position + run.count;
    const bool adjacent = source[next].value() == source[next - 1].value() + 1 &&
                          target[next].value() == target[next - 1].value() + 1;
    if (!adjacent) break;
    run.count += 1;
  }
  return run;
}

void zero_unused_keys(std::byte* block, const KvLayout& layout, int32_t used) {
  constexpr int32_t kColumn = KvLayout::kColumnTokens;
  const auto element = static_cast<size_t>(layout.element_bytes());
  const int32_t partial = used % kColumn;
  for (int32_t head = 0; head < layout.kv_heads; ++head) {
    // Whole columns of 16 tokens lie in one piece; the partly used one leaves a gap in every dimension.
    for (int32_t dim = 0; partial != 0 && dim < layout.head_dim; ++dim) {
      std::byte* gap = block + static_cast<size_t>(layout.key_element(head, used, dim)) * element;
      std::memset(gap, 0, static_cast<size_t>(kColumn - partial) * element);
    }
    const int32_t whole_from = (used + kColumn - 1) / kColumn * kColumn;
    if (whole_from >= layout.block_tokens) continue;
    std::byte* rest = block + static_cast<size_t>(layout.key_element(head, whole_from, 0)) * element;
    std::memset(rest, 0, static_cast<size_t>((layout.block_tokens - whole_from) * layout.head_dim) * element);
  }
}

void zero_unused_values(std::byte* block, const KvLayout& layout, int32_t used) {
  const auto element = static_cast<size_t>(layout.element_bytes());
  for (int32_t head = 0; head < layout.kv_heads; ++head) {
    if (used >= layout.block_tokens) continue;
    std::byte* rest = block + static_cast<size_t>(layout.value_element(head, used, 0)) * element;
    std::memset(rest, 0, static_cast<size_t>((layout.block_tokens - used) * layout.head_dim) * element);
  }
}

}  // namespace penstock
