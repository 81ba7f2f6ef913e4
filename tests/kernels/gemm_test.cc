#include "kernels/gemm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/cpu_fixture.h"
#include "tests/kernels/random_data.h"
#include "tests/reference/gemm_reference.h"

namespace penstock {
namespace {

struct Problem {
  int64_t m, n, k;
  bool a_transposed, b_transposed;
};

// A stored matrix with `pad` columns of NaN beyond its own: reading them would show.
struct Stored {
  std::vector<float> dense, padded;
  Matrix<const float> view;
  Stored(Rng& rng, int64_t rows, int64_t cols, int64_t pad) : dense(random_floats(rng, rows * cols)) {
    padded.assign(static_cast<size_t>(rows * (cols + pad)), NAN);
    for (int64_t r = 0; r < rows; ++r)
      std::copy_n(dense.begin() + r * cols, cols, padded.begin() + r * (cols + pad));
    view = {padded.data(), rows, cols, cols + pad};
  }
};

class Gemm : public CpuOpTest {
 protected:
  std::vector<float> run(const Problem& p, const Stored& a, const Stored& b, Accumulate accumulate,
                         GemmInputs inputs) {
    const int64_t stride = p.n + 3;
    std::vector<float> c(static_cast<size_t>(p.m * stride), 0.25F), dense;
    gemm(*stream_, {a.view, p.a_transposed}, {b.view, p.b_transposed}, {c.data(), p.m, p.n, stride},
         accumulate, inputs);
    for (int64_t r = 0; r < p.m; ++r) {
      dense.insert(dense.end(), c.begin() + r * stride, c.begin() + r * stride + p.n);
      for (int64_t i = p.n; i < stride; ++i) EXPECT_EQ(c[r * stride + i], 0.25F) << "beyond row " << r;
    }
    return dense;
  }

  void check(const Problem& p, int64_t pad = 5) {
    SCOPED_TRACE(testing::Message() << p.m << " x " << p.n << " x " << p.k << (p.a_transposed ? " At" : " A")
                                    << (p.b_transposed ? " Bt" : " B"));
    Rng rng(p.m * 7 + p.n * 3 + p.k);
    const Stored a(rng, p.a_transposed ? p.k : p.m, p.a_transposed ? p.m : p.k, pad);
    const Stored b(rng, p.b_transposed ? p.n : p.k, p.b_transposed ? p.k : p.n, pad);
    auto expected = reference::gemm(a.dense, p.a_transposed, b.dense, p.b_transposed, p.m, p.n, p.k);
    const double tolerance = 1e-6 * std::sqrt(static_cast<double>(p.k) + 1) * 4;
    const auto c = run(p, a, b, Accumulate::kOverwrite, GemmInputs::kF32);
    for (size_t i = 0; i < c.size(); ++i) ASSERT_NEAR(c[i], expected[i], tolerance) << "at " << i;
    const auto sum = run(p, a, b, Accumulate::kAdd, GemmInputs::kF32);
    for (size_t i = 0; i < c.size(); ++i)
      ASSERT_NEAR(sum[i], expected[i] + 0.25, tolerance) << "added at " << i;
  }
};

TEST_P(Gemm, AgreesWithDoublePrecisionInEveryOrientation) {
  for (const bool at : {false, true}) {
    for (const bool bt : {false, true}) {
      for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1},
                                    {1, 33, 7},
                                    {5, 32, 16},
                                    {15, 31, 17},
                                    {29, 70, 64},
                                    {300, 48, 33},
                                    {33, 5, 769},
                                    {17, 64, 1600}}) {
        check({m, n, k, at, bt});
      }
    }
  }
}

TEST_P(Gemm, RowsAPageApartAreRight) {
  check({40, 40, 1024, false, true}, 0);
  check({40, 40, 1000, false, false}, 24);
}

TEST_P(Gemm, ManyRowsOfATransposedMatrixPassInBlocks) { check({2100, 33, 20, true, false}); }

TEST_P(Gemm, AnEmptySumIsZero) {
  Rng rng(3);
  const Problem p{3, 4, 0, false, false};
  const Stored a(rng, 3, 0, 1), b(rng, 0, 4, 1);
  EXPECT_EQ(run(p, a, b, Accumulate::kOverwrite, GemmInputs::kF32), std::vector<float>(12, 0.0F));
  EXPECT_EQ(run(p, a, b, Accumulate::kAdd, GemmInputs::kF32), std::vector<float>(12, 0.25F));
}

TEST_P(Gemm, RoundedInputsGiveTheProductOfTheirBf16Values) {
  Rng rng(9);
  for (const bool at : {false, true}) {
    for (const bool bt : {false, true}) {
      const Problem p{35, 37, 90, at, bt};
      Stored a(rng, at ? p.k : p.m, at ? p.m : p.k, 2), b(rng, bt ? p.n : p.k, bt ? p.k : p.n, 2);
      const auto c = run(p, a, b, Accumulate::kOverwrite, GemmInputs::kRoundedToBf16);
      for (float& value : a.dense) value = to_float(to_bf16(value));
      for (float& value : b.dense) value = to_float(to_bf16(value));
      const auto expected = reference::gemm(a.dense, at, b.dense, bt, p.m, p.n, p.k);
      for (size_t i = 0; i < c.size(); ++i) ASSERT_NEAR(c[i], expected[i], 4e-5) << "at " << i;
    }
  }
}

// What makes a layer's shard compute what the whole layer computes.
TEST_P(Gemm, ARowIsTheSameInAnyBatchAndAColumnInAnyShard) {
  Rng rng(11);
  const Problem whole{70, 90, 1000, false, true};
  const Stored a(rng, whole.m, whole.k, 3), b(rng, whole.n, whole.k, 3);
  const auto all = run(whole, a, b, Accumulate::kOverwrite, GemmInputs::kF32);
  std::vector<float> part(13 * 21);
  gemm(*stream_, as_is(a.view.row_slice(20, 13)), transposed(b.view.row_slice(37, 21)),
       {part.data(), 13, 21});
  for (int64_t r = 0; r < 13; ++r)
    for (int64_t c = 0; c < 21; ++c)
      ASSERT_EQ(part[r * 21 + c], all[(20 + r) * whole.n + 37 + c]) << r << ", " << c;
}

INSTANTIATE_CPU_OP_TEST(Gemm);

}  // namespace
}  // namespace penstock
