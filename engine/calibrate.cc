#include "engine/calibrate.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace penstock {
namespace {

// The first `rows` tokens of each of `sequences`. Blocks are shared between nobody: sequence s owns blocks
// [s * blocks_each, ...).
class Batch {
 public:
  Batch(int32_t sequences, int32_t rows, int64_t vocab, int64_t blocks_each) {
    blocks_.resize(static_cast<size_t>(sequences * blocks_each));
    std::iota(blocks_.begin(), blocks_.end(), 0u);
    for (int32_t s = 0; s < sequences; ++s) {
      slices_.push_back({int64_t{s} * rows, rows, 0,
                         std::span<const uint32_t>(blocks_).subspan(static_cast<size_t>(s * blocks_each),
                                                                    static_cast<size_t>(blocks_each))});
      for (int32_t i = 0; i < rows; ++i) {
        tokens_.push_back(static_cast<TokenId>(i % vocab));
        positions_.push_back(i);
      }
      logit_rows_.push_back(static_cast<int32_t>(tokens_.size()) - 1);
    }
  }
  ForwardBatch view() const { return {tokens_, positions_, slices_, logit_rows_}; }

 private:
  std::vector<uint32_t> blocks_;
  std::vector<SequenceSlice> slices_;
  std::vector<TokenId> tokens_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> logit_rows_;
};

// The quickest of `times` passes: a neighbour that takes the core for a moment must not mark the node as
// slow, since a node that looks slow gets no work that could show otherwise.
Result<double> seconds_of(Runner& runner, const Clock& clock, const Batch& batch, int32_t times) {
  double best = 1e9;
  for (int32_t i = 0; i < times; ++i) {
    const TimePoint start = clock.now();
    RETURN_IF_ERROR(runner.run(batch.view(), [](int32_t) {}));
    best = std::min(best, (clock.now() - start).seconds());
  }
  return std::max(best, 1e-6);
}

}  // namespace

Result<MeasuredCapacity> calibrate(Runner& runner, const Clock& clock, CalibrationPlan plan) {
  const int64_t pool_tokens = plan.pool_blocks * plan.block_tokens;
  if (pool_tokens < 2) return fail(Error::kInvalidArgument, "calibration needs at least one KV block");
  if (plan.context_max < 1 || plan.vocab < 1)
    return fail(Error::kInvalidArgument, "calibration needs a context and a vocabulary");
  plan.prompt_tokens =
      static_cast<int32_t>(std::min({int64_t{plan.prompt_tokens}, pool_tokens - 1, plan.context_max}));
  plan.batch_max = static_cast<int32_t>(std::min<int64_t>(plan.batch_max, plan.pool_blocks));
  const int64_t prompt_blocks = plan.prompt_tokens / plan.block_tokens + 1;

  MeasuredCapacity measured;
  const Batch prompt(1, plan.prompt_tokens, plan.vocab, prompt_blocks);
  // The first pass touches every weight and thread for the first time, and counts only if none is quicker.
  ASSIGN_OR_RETURN(double seconds, seconds_of(runner, clock, prompt, plan.passes));
  measured.prefill_tokens_per_s = plan.prompt_tokens / seconds;
  ASSIGN_OR_RETURN(seconds, seconds_of(runner, clock, Batch(1, 1, plan.vocab, 1), plan.passes));
  measured.decode_b1_tokens_per_s = 1 / seconds;
  ASSIGN_OR_RETURN(seconds, seconds_of(runner, clock, Batch(plan.batch_max, 1, plan.vocab, 1), plan.passes));
  measured.decode_bmax_tokens_per_s = plan.batch_max / seconds;
  return measured;
}

}  // namespace penstock
