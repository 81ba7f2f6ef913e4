#include "engine/calibrate.h"

#include <gtest/gtest.h>

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
    return {};
  }
  void for_each(int64_t count, FunctionRef<void(int64_t)> fn) override {
    while (count > 0) fn(--count);
  }
  std::span<const float> logits(int64_t) const override { return {}; }
  Isa isa() const override { return Isa::kPortable; }
  int32_t layers() const override { return 1; }

 private:
  ManualClock& clock_;
  int passes_ = 0;
};

TEST(Calibrate, MeasuresTokensPerSecondWithinThePool) {
  ManualClock clock;
  TimedRunner runner(clock);
  CalibrationPlan plan;
  plan.block_tokens = 16;
  plan.pool_blocks = 6;
  const auto measured = calibrate(runner, clock, plan);
  ASSERT_TRUE(measured.ok());
  EXPECT_DOUBLE_EQ(measured->prefill_tokens_per_s, 1000);
  EXPECT_DOUBLE_EQ(measured->decode_b1_tokens_per_s, 1000);
  EXPECT_DOUBLE_EQ(measured->decode_bmax_tokens_per_s, 1000);
}

TEST(Calibrate, NeedsABlock) {
  ManualClock clock;
  TimedRunner runner(clock);
  EXPECT_EQ(calibrate(runner, clock, {}).code(), Error::kInvalidArgument);
}

}  // namespace
}  // namespace penstock
