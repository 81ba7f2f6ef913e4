#include "kernels/rmsnorm.h"

#include "tests/kernels/cpu_fixture.h"
#include "tests/kernels/random_data.h"
#include "tests/reference/rmsnorm_reference.h"

namespace penstock {
namespace {

using RmsnormTest = CpuOpTest;
INSTANTIATE_CPU_OP_TEST(RmsnormTest);

TEST_P(RmsnormTest, EqualsTheReference) {
  Rng rng(1);
  for (const int64_t cols : {1, 3, 15, 16, 17, 64, 100, 576, 577, 4096}) {
    for (const int64_t rows : {1, 2, 37}) {
      const int64_t stride = cols + 5;
      const auto x = random_floats(rng, rows * stride, 3), weight = random_bf16_floats(rng, cols);
      std::vector<Bf16> weight_bf16(weight.size());
      for (size_t i = 0; i < weight.size(); ++i) weight_bf16[i] = to_bf16(weight[i]);
      std::vector<float> y(static_cast<size_t>(rows * cols)), y_bf16 = y;
      const Matrix<const float> input(x.data(), rows, cols, stride);
      rmsnorm(*stream_, input, {weight.data(), DType::kF32, cols}, 1e-5F, {y.data(), rows, cols});
      rmsnorm(*stream_, input, {weight_bf16.data(), DType::kBf16, cols}, 1e-5F, {y_bf16.data(), rows, cols});
      EXPECT_EQ(y, y_bf16);
      for (int64_t row = 0; row < rows; ++row) {
        const auto expected = reference::rmsnorm_row({input.row(row), size_t(cols)}, weight, 1e-5F);
        expect_near_all({y.data() + row * cols, size_t(cols)}, expected, 1e-6, 1e-6);
      }
    }
  }
}

TEST_P(RmsnormTest, ZeroRowGivesZeroAndEpsIsInsideTheRoot) {
  const std::vector<float> zero(48), weight(48, 2.0F), tiny(48, 1e-4F);
  std::vector<float> y(48, 7.0F);
  rmsnorm(*stream_, {zero.data(), 1, 48}, {weight.data(), DType::kF32, 48}, 1e-5F, {y.data(), 1, 48});
  EXPECT_EQ(y, zero);
  rmsnorm(*stream_, {tiny.data(), 1, 48}, {weight.data(), DType::kF32, 48}, 1e-5F, {y.data(), 1, 48});
  EXPECT_NEAR(y[0], 2e-4 / std::sqrt(1e-8 + 1e-5), 1e-7);
}

// A row alone, in place and in a large batch: the same bits, whatever the threads.
TEST_P(RmsnormTest, RowsDoNotDependOnTheBatch) {
  Rng rng(2);
  const int64_t rows = 300, cols = 576;
  auto x = random_floats(rng, rows * cols);
  const auto weight = random_floats(rng, cols);
  const WeightVector w{weight.data(), DType::kF32, cols};
  std::vector<float> batch(x.size()), alone(static_cast<size_t>(cols));
  rmsnorm(*stream_, {x.data(), rows, cols}, w, 1e-5F, {batch.data(), rows, cols});
  for (int64_t row = 0; row < rows; ++row) {
    rmsnorm(*stream_, {x.data() + row * cols, 1, cols}, w, 1e-5F, {alone.data(), 1, cols});
    ASSERT_TRUE(std::equal(alone.begin(), alone.end(), batch.begin() + row * cols)) << "row " << row;
  }
  rmsnorm(*stream_, {x.data(), rows, cols}, w, 1e-5F, {x.data(), rows, cols});
  EXPECT_EQ(x, batch);
}

}  // namespace
}  // namespace penstock
