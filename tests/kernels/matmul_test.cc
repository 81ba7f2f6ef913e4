#include "kernels/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>

#include "kernels/matmul_cpu.h"
#include "tests/kernels/random_data.h"
#include "tests/reference/matmul_reference.h"

namespace penstock {
namespace {

// Packed weights with their memory, whatever the source's dtype.
struct Weights {
  std::vector<float> values;  // [n, k], exact in dtype
  std::unique_ptr<void, decltype(&std::free)> memory{nullptr, std::free};
  PackedMatrix packed;
};

Weights make_weights(Rng& rng, int64_t n, int64_t k, DType dtype, Isa isa) {
  Weights w;
  w.values = dtype == DType::kBf16 ? random_bf16_floats(rng, n * k) : random_floats(rng, n * k);
  const int64_t bytes = (PackedMatrix::packed_bytes(n, k, dtype, isa) + 63) / 64 * 64;
  w.memory.reset(std::aligned_alloc(64, static_cast<size_t>(bytes)));
  std::memset(w.memory.get(), 0xFF, static_cast<size_t>(bytes));  // NaN everywhere: padding must be written
  w.packed = PackedMatrix(w.memory.get(), n, k, dtype, isa);
  w.packed.pack_rows(0, {w.values.data(), DType::kF32, n, k, k});
  return w;
}

struct Problem {
  int64_t m, n, k, x_stride, y_stride;
  Accumulate accumulate;
};

std::vector<float> product(ThreadPool& pool, Isa isa, const PackedMatrix& w, const std::vector<float>& x,
                           const Problem& p) {
  std::vector<float> y(static_cast<size_t>(p.m * p.y_stride), 0.5F);
  matmul_cpu(pool, isa, {x.data(), p.m, p.k, p.x_stride}, w, {y.data(), p.m, p.n, p.y_stride}, p.accumulate);
  return y;
}

enum class Activations { kF32, kBf16 };  // as the products take them; AMX rounds them first

std::vector<float> dense(const std::vector<float>& x, const Problem& p, Activations activations) {
  std::vector<float> out;
  for (int64_t r = 0; r < p.m; ++r) {
    out.insert(out.end(), x.begin() + r * p.x_stride, x.begin() + r * p.x_stride + p.k);
  }
  if (activations == Activations::kBf16)
    for (float& value : out) value = to_float(to_bf16(value));
  return out;
}

// Bound on a sum of k products in f32: k rounding errors of the largest partial sum, with a random walk's
// square root. The rounding of activations is the reference's too, so it needs no room here.
void expect_product(const std::vector<float>& y, const std::vector<float>& x, const std::vector<float>& w,
                    const Problem& p, Activations activations) {
  const std::vector<double> expected = reference::matmul(dense(x, p, activations), w, p.m, p.n, p.k);
  const double bound = 4 * static_cast<double>(p.k) * 6e-8 + 1e-6;
  for (int64_t r = 0; r < p.m; ++r) {
    for (int64_t c = 0; c < p.y_stride; ++c) {
      const float got = y[r * p.y_stride + c];
      if (c >= p.n) {
        ASSERT_EQ(got, 0.5F) << "written beyond the row, at " << r << "," << c;
        continue;
      }
      const double start = p.accumulate == Accumulate::kAdd ? 0.5 : 0;
      ASSERT_NEAR(got, expected[r * p.n + c] + start, bound)
          << "m=" << p.m << " n=" << p.n << " k=" << p.k << " at " << r << "," << c;
    }
  }
}

Activations activations_of(Isa isa, DType dtype) {
  return isa == Isa::kAmxBf16 && dtype == DType::kBf16 ? Activations::kBf16 : Activations::kF32;
}

class EveryIsa : public testing::TestWithParam<std::tuple<Isa, DType>> {};

TEST_P(EveryIsa, AgreesWithTheReference) {
  const auto [isa, dtype] = GetParam();
  Rng rng(11);
  ThreadPool one(1), two(2);
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{32, 64}, {1, 1}, {33, 7}, {95, 65}, {192, 576}}) {
    const Weights w = make_weights(rng, n, k, dtype, isa);
    std::vector<int64_t> rows(33);
    std::iota(rows.begin(), rows.end(), 1);
    rows.push_back(64);
    rows.push_back(131);
    for (const int64_t m : rows) {
      const Problem p{m, n, k, k + m % 3, n + m % 5, m % 2 ? Accumulate::kAdd : Accumulate::kOverwrite};
      const std::vector<float> x = random_floats(rng, m * p.x_stride);
      expect_product(product(m % 4 < 2 ? one : two, isa, w.packed, x, p), x, w.values, p,
                     activations_of(isa, dtype));
      if (HasFatalFailure()) return;
    }
  }
}

// More than one block of widened K, and more rows than one block of partial sums.
TEST_P(EveryIsa, AgreesWithTheReferenceWhereKIsCut) {
  const auto [isa, dtype] = GetParam();
  Rng rng(12);
  ThreadPool pool(2);
  const Weights w = make_weights(rng, 40, 1700, dtype, isa);
  const Problem p{260, 40, 1700, 1700, 40, Accumulate::kAdd};
  const std::vector<float> x = random_floats(rng, p.m * p.x_stride);
  expect_product(product(pool, isa, w.packed, x, p), x, w.values, p, activations_of(isa, dtype));
}

TEST_P(EveryIsa, ARowIsTheSameInAnyBatchBitForBit) {
  const auto [isa, dtype] = GetParam();
  Rng rng(13);
  ThreadPool one(1), two(2);
  for (const auto accumulate : {Accumulate::kOverwrite, Accumulate::kAdd}) {
    const int64_t n = 80, k = 833, m_max = 512;
    const Weights w = make_weights(rng, n, k, dtype, isa);
    const std::vector<float> x = random_floats(rng, m_max * k);
    std::vector<float> alone;
    for (int64_t r = 0; r < m_max; ++r) {
      const std::vector<float> row(x.begin() + r * k, x.begin() + (r + 1) * k);
      const std::vector<float> y = product(one, isa, w.packed, row, {1, n, k, k, n, accumulate});
      alone.insert(alone.end(), y.begin(), y.end());
    }
    for (const int64_t m : {2, 3, 7, 14, 15, 16, 17, 28, 29, 33, 64, 257, 512}) {
      for (ThreadPool* pool : {&one, &two}) {
        const std::vector<float> y = product(*pool, isa, w.packed, x, {m, n, k, k, n, accumulate});
        ASSERT_EQ(std::memcmp(y.data(), alone.data(), y.size() * sizeof(float)), 0) << "m=" << m;
      }
    }
  }
}

std::vector<std::tuple<Isa, DType>> every_isa_and_dtype() {
  std::vector<std::tuple<Isa, DType>> all;
  for (const Isa isa : available_isas()) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) all.emplace_back(isa, dtype);
  }
  return all;
}

std::string test_name(const testing::TestParamInfo<std::tuple<Isa, DType>>& test) {
  return std::string(isa_name(std::get<0>(test.param))) + "_" +
         std::string(dtype_name(std::get<1>(test.param)));
}

INSTANTIATE_TEST_SUITE_P(Matmul, EveryIsa, testing::ValuesIn(every_isa_and_dtype()), test_name);

TEST(PackedMatrix, TakesRowsPiecewiseAndConverts) {
  Rng rng(14);
  const int64_t n = 70, k = 45;
  for (const Isa isa : {Isa::kPortable, Isa::kAmxBf16}) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      const Weights whole = make_weights(rng, n, k, dtype, isa);
      Weights pieces = make_weights(rng, n, k, dtype, isa);
      // Every value is exact in bf16, so the source's dtype must not show.
      const std::vector<float> exact = random_bf16_floats(rng, n * k);
      std::vector<Bf16> narrow;
      for (const float value : exact) narrow.push_back(to_bf16(value));
      PackedMatrix a = whole.packed;
      a.pack_rows(0, {exact.data(), DType::kF32, n, k, k});
      pieces.packed.pack_rows(41, {narrow.data() + 41 * k, DType::kBf16, n - 41, k, k});
      pieces.packed.pack_rows(0, {exact.data(), DType::kF32, 10, k, k});
      pieces.packed.pack_rows(10, {narrow.data() + 10 * k, DType::kBf16, 31, k, k});
      const size_t bytes = static_cast<size_t>(PackedMatrix::packed_bytes(n, k, dtype, isa));
      EXPECT_EQ(std::memcmp(a.data(), pieces.packed.data(), bytes), 0);
    }
  }
}

TEST(PackedMatrix, WidensF16) {
  const std::vector<F16> source = {to_f16(1.5F), to_f16(-0.25F), to_f16(6.103515625e-05F)};
  alignas(64) float memory[3 * 32];
  PackedMatrix packed(memory, 1, 3, DType::kF32, Isa::kPortable);
  packed.pack_rows(0, {source.data(), DType::kF16, 1, 3, 3});
  EXPECT_EQ(memory[0], 1.5F);
  EXPECT_EQ(memory[32], -0.25F);
  EXPECT_EQ(memory[64], 6.103515625e-05F);
  EXPECT_EQ(memory[1], 0.0F);
}

// Packing, tiling and padding of the AMX path, on machines that hide AMX too.
TEST(MatmulAmxStandIn, AgreesWithTheReferenceAndIsBatchInvariant) {
  Rng rng(15);
  ThreadPool one(1), two(2);
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{32, 32}, {1, 1}, {75, 65}, {64, 200}}) {
    const Weights w = make_weights(rng, n, k, DType::kBf16, Isa::kAmxBf16);
    ASSERT_EQ(w.packed.layout(), PanelLayout::kBf16Tiles);
    const int64_t m_max = 65;
    const std::vector<float> x = random_floats(rng, m_max * k);
    std::vector<float> last;
    for (const int64_t m : {1, 2, 15, 16, 17, 31, 32, 33, 48, 65}) {
      const Problem p{m, n, k, k, n + 3, Accumulate::kAdd};
      std::vector<float> y(static_cast<size_t>(m * p.y_stride), 0.5F);
      matmul_amx(m % 2 ? one : two, amx_stand_in_kernels(), {x.data(), m, k, k}, w.packed,
                 {y.data(), m, n, p.y_stride}, p.accumulate);
      expect_product(y, x, w.values, p, Activations::kBf16);
      if (HasFatalFailure()) return;
      ASSERT_TRUE(std::equal(last.begin(), last.end(), y.begin())) << "m=" << m;
      last = y;
    }
  }
}

}  // namespace
}  // namespace penstock
