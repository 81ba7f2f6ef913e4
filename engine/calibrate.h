// Measured speed of a node, before it says that it is ready: what the router's projections start from.
#pragma once

#include "base/result.h"
#include "base/time.h"
#include "engine/runner.h"

namespace penstock {

struct MeasuredCapacity {
  double prefill_tokens_per_s = 0;
  double decode_b1_tokens_per_s = 0;
  double decode_bmax_tokens_per_s = 0;  // sum over a batch of batch_max sequences
};

struct CalibrationPlan {
  int32_t prompt_tokens = 128;
  int32_t batch_max = 16;
  int32_t passes = 3;  // of each kind; the quickest counts
  int32_t block_tokens = 64;
  int64_t pool_blocks = 0;
  int64_t context_max = 0;
  int64_t vocab = 0;
};

// Runs one prompt and a few decode steps in the first blocks of the pool, whose content is lost: only before
// the first sequence. Sizes shrink to what pool and context hold. Takes well under a second on a fast device.
[[nodiscard]] Result<MeasuredCapacity> calibrate(Runner& runner, const Clock& clock, CalibrationPlan plan);

}  // namespace penstock
