#include "engine/step_batch.h"

#include "base/check.h"

namespace penstock {

void StepBatch::gather(const scheduler::BatchScheduler& scheduler, std::span<const scheduler::Slice> slices) {
  tokens_.clear();
  positions_.clear();
  block_numbers_.clear();
  sequences_.clear();
  logit_rows_.clear();
  size_t blocks_total = 0;
  for (const auto& slice : slices) blocks_total += scheduler.blocks_of(slice.key).size();
  block_numbers_.reserve(blocks_total);  // the tables below point into it

  for (const auto& slice : slices) {
    const auto ids = scheduler.tokens_of(slice.key);
    CHECK_LE(static_cast<size_t>(slice.first_position + slice.token_count), ids.size());
    const int64_t first_row = static_cast<int64_t>(tokens_.size());
    for (int32_t i = 0; i < slice.token_count; ++i) {
      tokens_.push_back(ids[static_cast<size_t>(slice.first_position + i)]);
      positions_.push_back(slice.first_position + i);
    }
    const size_t table_start = block_numbers_.size();
    for (const BlockId block : scheduler.blocks_of(slice.key)) block_numbers_.push_back(block.value());
    sequences_.push_back({first_row, slice.token_count, slice.first_position,
                          std::span<const uint32_t>(block_numbers_).subspan(table_start)});
    if (slice.wants_sample) logit_rows_.push_back(static_cast<int32_t>(tokens_.size()) - 1);
  }
}

ForwardBatch StepBatch::view() const { return {tokens_, positions_, sequences_, logit_rows_}; }

}  // namespace penstock
