#include "kernels/swiglu.h"

#include "tests/kernels/cpu_fixture.h"
#include "tests/kernels/random_data.h"
#include "tests/reference/swiglu_reference.h"

namespace penstock {
namespace {

using SwigluTest = CpuOpTest;
INSTANTIATE_CPU_OP_TEST(SwigluTest);

TEST_P(SwigluTest, EqualsTheReference) {
  Rng rng(3);
  for (const int64_t ffn : {1, 7, 16, 31, 192, 1536, 1537}) {
    for (const int64_t rows : {1, 3, 40}) {
      const auto gate_up = random_floats(rng, rows * 2 * ffn, 6);
      std::vector<float> y(static_cast<size_t>(rows * ffn));
      swiglu(*stream_, {gate_up.data(), rows, 2 * ffn}, {y.data(), rows, ffn});
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t i = 0; i < ffn; ++i) {
          const float* gate = gate_up.data() + row * 2 * ffn + i;
          const double expected = reference::swiglu(gate[0], gate[ffn]);
          ASSERT_NEAR(y[row * ffn + i], expected, 1e-6 * std::abs(expected) + 1e-30) << gate[0];
        }
      }
    }
  }
}

TEST_P(SwigluTest, ExtremesAreFinite) {
  const std::vector<float> gates = {-1e30F, -200,   -100, -88.5F, -87, -20,  0,
                                    -0.0F,  1e-30F, 20,   88.5F,  200, 1e30F};
  const int64_t n = static_cast<int64_t>(gates.size());
  std::vector<float> gate_up = gates, y(gates.size());
  gate_up.resize(gates.size() * 2, 1.0F);
  swiglu(*stream_, {gate_up.data(), 1, 2 * n}, {y.data(), 1, n});
  for (int64_t i = 0; i < n; ++i) {
    const double expected = gates[i] < -80 ? 0 : reference::swiglu(gates[i], 1);
    EXPECT_NEAR(y[i], expected, std::max(1e-6 * std::abs(expected), gates[i] < -200 ? 1e-8 : 1e-33))
        << gates[i];
  }
}

TEST_P(SwigluTest, RowsDoNotDependOnTheBatch) {
  Rng rng(4);
  const int64_t rows = 100, ffn = 1536;
  const auto gate_up = random_floats(rng, rows * 2 * ffn);
  std::vector<float> batch(static_cast<size_t>(rows * ffn)), alone(static_cast<size_t>(ffn));
  swiglu(*stream_, {gate_up.data(), rows, 2 * ffn}, {batch.data(), rows, ffn});
  for (int64_t row = 0; row < rows; ++row) {
    swiglu(*stream_, {gate_up.data() + row * 2 * ffn, 1, 2 * ffn}, {alone.data(), 1, ffn});
    ASSERT_TRUE(std::equal(alone.begin(), alone.end(), batch.begin() + row * ffn)) << "row " << row;
  }
}

}  // namespace
}  // namespace penstock
