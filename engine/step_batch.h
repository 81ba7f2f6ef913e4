// StepBatch: the arrays of one forward pass, gathered from the scheduler's slices.
//
// Belongs to the engine thread; reused between steps, so that a step allocates nothing once its largest size
// was seen.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "model/llama.h"
#include "scheduler/batch/batch_scheduler.h"

namespace penstock {

class StepBatch {
 public:
  // Token ids, positions, block tables and the rows whose logits are wanted, slice after slice.
  void gather(const scheduler::BatchScheduler& scheduler, std::span<const scheduler::Slice> slices);
  // Spans into this object, valid until the next gather.
  ForwardBatch view() const;

 private:
  std::vector<TokenId> tokens_;
  std::vector<int32_t> positions_;
  std::vector<uint32_t> block_numbers_;  // block tables of all slices, one after the other
  std::vector<SequenceSlice> sequences_;
  std::vector<int32_t> logit_rows_;
};

}  // namespace penstock
