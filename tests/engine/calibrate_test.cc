#include "engine/calibrate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/fake_runner.h"

namespace penstock {
namespace {

// Each forward pass advances the clock by a millisecond a row.
class TimedRunner final : public Runner {
 public:
  explicit TimedRunner(ManualClock& clock) : clock_(clock) {}
  Status run(const ForwardBatch& batch, LayerCallback) override {
    // A hiccup of a second in every third pass: it must not count.
    const int64_t hiccup = passes_++ % 3 == 1 ? 1000 : 0;
    clock_.advance(Duration::from_ms(static_cast<int64_t>(batch.tokens.size()) + hiccup));
    for (const SequenceSlice& s : batch.sequences) {
      for (const uint32_t block : s.block_table) EXPECT_LT(block, 6u);
      EXPECT_GE(static_cast<int64_t>(s.block_table.size()) * 16, s.first_position + s.rows);
    }
    for (const int32_t position : batch.positions) position_max_ = std::max(position_max_, position);
    for (const TokenId token : batch.tokens) token_max_ = std::max(token_max_, token);
    return {};
  }
  void for_each(int64_t count, FunctionRef<void(int64_t)> fn) override {
    while (count > 0) fn(--count);
  }
  std::span<const float> logits(int64_t) const override { return {}; }
  Isa isa() const override { return Isa::kPortable; }
  int32_t layers() const override { return 1; }
  int32_t position_max() const { return position_max_; }
  TokenId token_max() const { return token_max_; }

 private:
  ManualClock& clock_;
  int passes_ = 0;
  int32_t position_max_ = 0;
  TokenId token_max_ = 0;
};

CalibrationPlan small_plan() {
  CalibrationPlan plan;
  plan.block_tokens = 16;
  plan.pool_blocks = 6;
  plan.context_max = 2048;
  plan.vocab = 1000;
  return plan;
}

TEST(Calibrate, MeasuresTokensPerSecondWithinThePool) {
  ManualClock clock;
  TimedRunner runner(clock);
  const auto measured = calibrate(runner, clock, small_plan());
  ASSERT_TRUE(measured.ok());
  EXPECT_DOUBLE_EQ(measured->prefill_tokens_per_s, 1000);
  EXPECT_DOUBLE_EQ(measured->decode_b1_tokens_per_s, 1000);
  EXPECT_DOUBLE_EQ(measured->decode_bmax_tokens_per_s, 1000);
}

// A position beyond the context, or a token beyond the vocabulary, would be a CHECK failure of a kernel.
TEST(Calibrate, StaysWithinContextAndVocabulary) {
  for (const int32_t context_max : {1, 2, 17, 64}) {
    ManualClock clock;
    TimedRunner runner(clock);
    CalibrationPlan plan = small_plan();
    plan.context_max = context_max;
    plan.vocab = 3;
    ASSERT_TRUE(calibrate(runner, clock, plan).ok());
    EXPECT_EQ(runner.position_max(), context_max - 1);
    EXPECT_EQ(runner.token_max(), std::min(context_max, 3) - 1);
  }
}

TEST(Calibrate, NeedsABlockAContextAndAVocabulary) {
  ManualClock clock;
  TimedRunner runner(clock);
  for (const auto spoil : {+[](CalibrationPlan& plan) { plan.pool_blocks = 0; },
                           +[](CalibrationPlan& plan) { plan.context_max = 0; },
                           +[](CalibrationPlan& plan) { plan.vocab = 0; }}) {
    CalibrationPlan plan = small_plan();
    spoil(plan);
    EXPECT_EQ(calibrate(runner, clock, plan).code(), Error::kInvalidArgument);
  }
}

}  // namespace
}  // namespace penstock
