#include "kernels/rope.h"

#include "tests/kernels/cpu_fixture.h"
#include "tests/kernels/random_data.h"
#include "tests/reference/rope_reference.h"

namespace penstock {
namespace {

using RopeTest = CpuOpTest;
INSTANTIATE_CPU_OP_TEST(RopeTest);

// Fused rows of Q, K and V: the first `heads` are turned, V and the padding stay.
TEST_P(RopeTest, TurnsQueryAndKeyHeadsOnly) {
  Rng rng(5);
  for (const int64_t head_dim : {2, 6, 32, 64, 80, 128}) {
    const int64_t heads = 5, v_heads = 2, rows = 9, cols = (heads + v_heads) * head_dim, stride = cols + 3;
    auto table = RopeTable::make(*device_, {.head_dim = head_dim, .theta = 10000, .positions_max = 5000});
    ASSERT_TRUE(table.ok());
    const auto before = random_floats(rng, rows * stride);
    auto x = before;
    const std::vector<int32_t> positions = {0, 1, 2, 7, 63, 64, 1000, 4095, 4999};
    rope(*stream_, {x.data(), rows, cols, stride}, heads, *table, positions.data());
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t at = row * stride + head * head_dim;
        const auto expected =
            reference::rope_head({before.data() + at, size_t(head_dim)}, positions[row], 10000);
        expect_near_all({x.data() + at, size_t(head_dim)}, expected, 1e-6, 1.0);
      }
      for (int64_t i = heads * head_dim; i < stride && row * stride + i < int64_t(x.size()); ++i) {
        ASSERT_EQ(x[row * stride + i], before[row * stride + i]);
      }
    }
  }
}

TEST_P(RopeTest, RowsDoNotDependOnTheBatch) {
  Rng rng(6);
  const int64_t rows = 200, heads = 12, head_dim = 64, cols = heads * head_dim;
  auto table = RopeTable::make(*device_, {.head_dim = head_dim, .theta = 100000, .positions_max = 200});
  ASSERT_TRUE(table.ok());
  auto batch = random_floats(rng, rows * cols), alone = batch;
  std::vector<int32_t> positions(rows);
  for (int64_t row = 0; row < rows; ++row) positions[row] = static_cast<int32_t>(row);
  rope(*stream_, {batch.data(), rows, cols}, heads, *table, positions.data());
  for (int64_t row = 0; row < rows; ++row) {
    rope(*stream_, {alone.data() + row * cols, 1, cols}, heads, *table, positions.data() + row);
  }
  EXPECT_EQ(batch, alone);
}

// Llama 3.1's numbers: short wavelengths kept, long ones divided by 8, between them blended.
TEST(RopeTable, Llama3Scaling) {
  const auto device = make_cpu_device();
  const reference::Llama3Scaling scaling{8, 1, 4, 8192};
  RopeParams params{.head_dim = 128, .theta = 500000, .positions_max = 2};
  params.llama3 = Llama3RopeScaling{};
  auto table = RopeTable::make(*device, params);
  ASSERT_TRUE(table.ok());
  int kept = 0, divided = 0;
  for (int64_t i = 0; i < 64; ++i) {
    const float expected = reference::rope_frequency(i, 128, 500000, scaling);
    const float unscaled = reference::rope_frequency(i, 128, 500000, std::nullopt);
    kept += expected == unscaled;
    divided += expected == unscaled / 8;
    EXPECT_NEAR(std::asin(table->data()[128 + 64 + i]), std::asin(std::sin(expected)), 1e-7)
        << i;  // position 1
  }
  EXPECT_EQ(kept, 29);  // of 64 pairs; the remaining six are blended
  EXPECT_EQ(divided, 29);
}

TEST(RopeTable, RefusesWhatCannotWork) {
  const auto device = make_cpu_device();
  EXPECT_EQ(RopeTable::make(*device, {.head_dim = 63, .positions_max = 8}).code(), Error::kInvalidArgument);
  EXPECT_EQ(RopeTable::make(*device, {.head_dim = 64, .positions_max = 0}).code(), Error::kInvalidArgument);
  // A config.json may claim any context: no memory is a failure that says for what, not an exception.
  const auto huge = RopeTable::make(*device, {.head_dim = 64, .positions_max = int64_t{1} << 40});
  ASSERT_FALSE(huge.ok());
  EXPECT_EQ(huge.code(), Error::kResourceExhausted);
  EXPECT_NE(huge.message().find("rotary table of 1099511627776 positions"), std::string::npos)
      << huge.message();
  EXPECT_EQ(RopeTable::make(*device, {.head_dim = 64, .theta = -1, .positions_max = 8}).code(),
            Error::kInvalidArgument);
}

using RopeDeathTest = CpuOpTest;
INSTANTIATE_CPU_OP_TEST(RopeDeathTest);
TEST_P(RopeDeathTest, PositionBeyondTheTable) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto table = RopeTable::make(*device_, {.head_dim = 4, .positions_max = 8});
  ASSERT_TRUE(table.ok());
  std::vector<float> x(4);
  const int32_t position = 8;
  EXPECT_DEATH(rope(*stream_, {x.data(), 1, 4}, 1, *table, &position), "CHECK failed");
}

}  // namespace
}  // namespace penstock
