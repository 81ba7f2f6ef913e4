#include "kernels/optimizer_step.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/cpu_fixture.h"
#include "tests/kernels/random_data.h"
#include "tests/reference/optimizer_reference.h"

namespace penstock {
namespace {

constexpr int64_t kCount = 40'003;  // three chunks, the last one odd
constexpr int kSteps = 5;
constexpr float kGradScale = 0.37F;

class OptimizerStep : public CpuOpTest {
 protected:
  OptimizerStep() {
    Rng rng(4);
    w_ = random_floats(rng, kCount);
    for (int step = 0; step < kSteps; ++step)
      gradients_.push_back(random_floats(rng, kCount, step == 2 ? 100 : 1));
    m_.assign(w_.size(), 0);
    v_.assign(w_.size(), 0);
    for (const float w : w_) expected_.push_back({w, 0, 0});
  }
  OptimizerArrays arrays(int step) {
    return {w_.data(), gradients_[step].data(), m_.data(), v_.data(), kCount};
  }
  double scaled(int step, int64_t i) const { return static_cast<double>(gradients_[step][i]) * kGradScale; }
  void expect_weights(double tolerance) {
    for (int64_t i = 0; i < kCount; ++i) ASSERT_NEAR(w_[i], expected_[i].w, tolerance) << "at " << i;
  }

  std::vector<float> w_, m_, v_;
  std::vector<std::vector<float>> gradients_;
  std::vector<reference::OptimizerState> expected_;
};

TEST_P(OptimizerStep, AdamWIsThatOfDoublePrecision) {
  for (int step = 0; step < kSteps; ++step) {
    adamw_step(*stream_, {1e-2, 0.9, 0.95, 1e-8, 0.1, step + 1, kGradScale}, arrays(step));
    for (int64_t i = 0; i < kCount; ++i)
      reference::adamw(expected_[i], scaled(step, i), 1e-2, 0.9, 0.95, 1e-8, 0.1, step + 1);
  }
  expect_weights(2e-6);
}

TEST_P(OptimizerStep, SgdIsThatOfDoublePrecision) {
  for (const double momentum : {0.0, 0.9}) {
    for (int step = 0; step < kSteps; ++step) {
      sgd_step(*stream_, {1e-2, momentum, 0.1, kGradScale}, arrays(step));
      for (int64_t i = 0; i < kCount; ++i) reference::sgd(expected_[i], scaled(step, i), 1e-2, momentum, 0.1);
    }
    expect_weights(2e-5);
    std::fill(m_.begin(), m_.end(), 0.0F);
    for (auto& state : expected_) state.moment1 = 0;
  }
}

TEST_P(OptimizerStep, RmsPropIsThatOfDoublePrecision) {
  for (const double momentum : {0.0, 0.9}) {
    for (int step = 0; step < kSteps; ++step) {
      rmsprop_step(*stream_, {1e-3, 0.9, 1e-6, momentum, 0.1, kGradScale}, arrays(step));
      for (int64_t i = 0; i < kCount; ++i)
        reference::rmsprop(expected_[i], scaled(step, i), 1e-3, 0.9, 1e-6, momentum, 0.1);
    }
    expect_weights(5e-6);
    std::fill(m_.begin(), m_.end(), 0.0F);
    std::fill(v_.begin(), v_.end(), 0.0F);
    for (auto& state : expected_) state.moment1 = state.moment2 = 0;
  }
}

TEST_P(OptimizerStep, LambTrustsByTheNormsOfTheWholeTensor) {
  std::vector<float> direction(w_.size());
  for (int step = 0; step < kSteps; ++step) {
    const LambNorms norms = lamb_direction(*stream_, {0, 0.9, 0.95, 1e-6, 0.1, step + 1, kGradScale},
                                           arrays(step), direction.data());
    std::vector<double> expected_direction;
    double ww = 0, rr = 0;
    for (int64_t i = 0; i < kCount; ++i) {
      ww += expected_[i].w * expected_[i].w;
      expected_direction.push_back(
          reference::lamb_direction(expected_[i], scaled(step, i), 0.9, 0.95, 1e-6, 0.1, step + 1));
      rr += expected_direction.back() * expected_direction.back();
    }
    ASSERT_NEAR(norms.weights, ww, ww * 1e-5);
    ASSERT_NEAR(norms.direction, rr, rr * 1e-5);
    const double ratio = lamb_trust_ratio(norms);
    lamb_apply(*stream_, 1e-2 * ratio, direction.data(), w_.data(), kCount);
    for (int64_t i = 0; i < kCount; ++i) expected_[i].w -= 1e-2 * std::sqrt(ww / rr) * expected_direction[i];
  }
  expect_weights(5e-6);
}

TEST(LambTrustRatio, IsOneWithoutNormsAndBoundedAbove) {
  EXPECT_EQ(lamb_trust_ratio({0, 4}), 1);
  EXPECT_EQ(lamb_trust_ratio({4, 0}), 1);
  EXPECT_EQ(lamb_trust_ratio({4, 16}), 0.5);
  EXPECT_EQ(lamb_trust_ratio({1e8, 1}), 10);
  EXPECT_EQ(lamb_trust_ratio({1e8, 1}, 1e9), 1e4);
}

// ZeRO-1 must not change a bit.
TEST_P(OptimizerStep, AShardIsUpdatedAsInTheWhole) {
  std::vector<float> w = w_, m = m_, v = v_;
  const AdamWStep step{1e-2, 0.9, 0.95, 1e-8, 0.1, 1, kGradScale};
  for (const auto& [first, end] : {std::pair<int64_t, int64_t>{0, 17}, {17, 20'001}, {20'001, kCount}}) {
    adamw_step(
        *stream_, step,
        {w.data() + first, gradients_[0].data() + first, m.data() + first, v.data() + first, end - first});
  }
  adamw_step(*stream_, step, arrays(0));
  EXPECT_EQ(w, w_);
  EXPECT_EQ(m, m_);
  EXPECT_EQ(v, v_);
}

TEST_P(OptimizerStep, EveryInstructionSetComputesTheSameBits) {
  std::vector<float> w = w_, m = m_, v = v_;
  const auto portable = device_->make_stream({.threads = 1, .isa = Isa::kPortable}).value();
  const AdamWStep step{1e-2, 0.9, 0.95, 1e-8, 0.1, 1, kGradScale};
  adamw_step(*portable, step, {w.data(), gradients_[0].data(), m.data(), v.data(), kCount});
  adamw_step(*stream_, step, arrays(0));
  EXPECT_EQ(w, w_);
  EXPECT_EQ(sum_of_squares(*portable, w.data(), kCount), sum_of_squares(*stream_, w.data(), kCount));
}

TEST_P(OptimizerStep, SquaresOfManySmallValuesAreNotLost) {
  std::vector<float> values(1'000'003, 1e-4F);
  values[0] = 1e4F;
  const double expected = 1e8 + 1'000'002 * static_cast<double>(1e-4F) * 1e-4F;
  // 2,048 additions to 1e8 in double precision round by 1.5e-8 at most; in f32 all of 0.01 would be lost.
  EXPECT_NEAR(sum_of_squares(*stream_, values.data(), static_cast<int64_t>(values.size())), expected, 3e-5);
  EXPECT_EQ(sum_of_squares(*stream_, values.data(), 0), 0);
}

INSTANTIATE_CPU_OP_TEST(OptimizerStep);

}  // namespace
}  // namespace penstock
