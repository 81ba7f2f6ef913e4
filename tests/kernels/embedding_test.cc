#include "kernels/embedding.h"

#include "kernels/elementwise.h"
#include "tests/kernels/cpu_fixture.h"
#include "tests/kernels/random_data.h"

namespace penstock {
namespace {

using EmbeddingTest = CpuOpTest;
INSTANTIATE_CPU_OP_TEST(EmbeddingTest);

TEST_P(EmbeddingTest, CopiesRowsExactly) {
  Rng rng(7);
  const int64_t vocab = 50, cols = 577, stride = 600;
  const auto table = random_bf16_floats(rng, vocab * stride);
  std::vector<Bf16> table_bf16(table.size());
  for (size_t i = 0; i < table.size(); ++i) table_bf16[i] = to_bf16(table[i]);
  std::vector<TokenId> ids(150);
  for (TokenId& id : ids) id = static_cast<TokenId>(rng.below(vocab));
  const int64_t rows = static_cast<int64_t>(ids.size());
  std::vector<float> y(static_cast<size_t>(rows * cols)), y_bf16 = y;
  embedding(*stream_, {table.data(), DType::kF32, vocab, cols, stride}, ids.data(), {y.data(), rows, cols});
  embedding(*stream_, {table_bf16.data(), DType::kBf16, vocab, cols, stride}, ids.data(),
            {y_bf16.data(), rows, cols});
  EXPECT_EQ(y, y_bf16);
  for (int64_t row = 0; row < rows; ++row) {
    ASSERT_TRUE(
        std::equal(y.begin() + row * cols, y.begin() + (row + 1) * cols, table.begin() + ids[row] * stride));
  }
}

TEST_P(EmbeddingTest, AddsMatrices) {
  Rng rng(8);
  for (const int64_t cols : {1, 17, 576}) {
    const int64_t rows = 70;
    const auto x = random_floats(rng, rows * cols);
    auto y = random_floats(rng, rows * cols), expected = y;
    for (size_t i = 0; i < x.size(); ++i) expected[i] += x[i];
    add(*stream_, {x.data(), rows, cols}, {y.data(), rows, cols});
    EXPECT_EQ(y, expected);
  }
}

}  // namespace
}  // namespace penstock
