#include "kernels/gemm.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/gemm_tiles.h"
#include "kernels/row_parallel_cpu.h"

namespace penstock {
namespace {

GemmKernels kernels_of(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return gemm_kernels_portable();
    case Isa::kAvx2:
      return gemm_kernels_avx2();
    case Isa::kAvx512:
    case Isa::kAvx512Bf16:
    case Isa::kAmxBf16:
      return gemm_kernels_avx512();
  }
  return gemm_kernels_portable();
}

// The part of an operand that starts at (row, col) of what the product sees.
GemmSource source_at(const GemmOperand& operand, int64_t row, int64_t col, bool to_bf16) {
  const Matrix<const float>& m = operand.matrix;
  return {operand.transposed ? m.data + col * m.stride + row : m.data + row * m.stride + col, m.stride,
          operand.transposed, to_bf16};
}

// One block of rows and of k: A made ready if it must be, then panels of 32 columns of B.
class GemmBlock {
 public:
  GemmBlock(ThreadPool& threads, const GemmKernels& kernels, const GemmOperand& a, const GemmOperand& b,
            bool to_bf16)
      : threads_(threads), kernels_(kernels), a_(a), b_(b), to_bf16_(to_bf16) {}

  void compute(int64_t row, int64_t k, int64_t k_count, Matrix<float> c, bool add) {
    const Matrix<const float> a = ready_a(row, c.rows, k, k_count);
    constexpr int64_t kRowsAtOnce = 256;  // their part of A stays in a level-2 cache
    const int64_t row_blocks = (c.rows + kRowsAtOnce - 1) / kRowsAtOnce, panels = (c.cols + 31) / 32;
    const int64_t rows = (c.rows + row_blocks - 1) / row_blocks;
    threads_.parallel_for(row_blocks * panels, [&](int64_t chunk) {
      const int64_t first = chunk / panels * rows, column = chunk % panels * 32;
      kernels_.panel({.a = a.row(first),
                      .a_stride = a.stride,
                      .rows = std::min(rows, c.rows - first),
                      .k = k_count,
                      .b = source_at(b_, k, column, to_bf16_),
                      .columns = std::min<int64_t>(32, c.cols - column),
                      .c = c.row(first) + column,
                      .c_stride = c.stride,
                      .add = add});
    });
  }

 private:
  // Rows of A that the inner loop can walk: its own, or a copy where they are columns, need rounding, or lie
  // a multiple of a page apart, so that they would share few cache sets.
  Matrix<const float> ready_a(int64_t row, int64_t rows, int64_t k, int64_t k_count) {
    const GemmSource source = source_at(a_, row, k, to_bf16_);
    if (!a_.transposed && !to_bf16_ && source.stride % 1024 != 0)
      return {source.data, rows, k_count, source.stride};
    const int64_t stride = (k_count + 15) / 16 * 16 + 16;
    float* const to = reinterpret_cast<float*>(threads_.scratch(rows * stride * 4).data());
    constexpr int64_t kRowsAtOnce = 64;
    threads_.parallel_for((rows + kRowsAtOnce - 1) / kRowsAtOnce, [&](int64_t chunk) {
      const int64_t first = chunk * kRowsAtOnce;
      kernels_.copy({source_at(a_, row + first, k, to_bf16_), std::min(kRowsAtOnce, rows - first), k_count,
                     to + first * stride, stride});
    });
    return {to, rows, k_count, stride};
  }

  ThreadPool& threads_;
  const GemmKernels& kernels_;
  const GemmOperand& a_;
  const GemmOperand& b_;
  bool to_bf16_;
};

void zero(Matrix<float> c) {
  for (int64_t row = 0; row < c.rows; ++row) std::fill(c.row(row), c.row(row) + c.cols, 0.0F);
}

}  // namespace

void gemm(Stream& stream, GemmOperand a, GemmOperand b, Matrix<float> c, Accumulate accumulate,
          GemmInputs inputs) {
  require_cpu(stream, "gemm");
  CHECK_EQ(a.rows(), c.rows);
  CHECK_EQ(b.cols(), c.cols);
  CHECK_EQ(a.cols(), b.rows());
  const int64_t depth = a.cols();
  if (depth == 0 && accumulate == Accumulate::kOverwrite) zero(c);
  constexpr int64_t kRowsMax = 2048;  // bounds the copy of A
  const GemmKernels kernels = kernels_of(stream.isa());
  GemmBlock block(stream.threads(), kernels, a, b, inputs == GemmInputs::kRoundedToBf16);
  for (int64_t row = 0; row < c.rows; row += kRowsMax) {
    const Matrix<float> rows = c.row_slice(row, std::min(kRowsMax, c.rows - row));
    for (int64_t k = 0; k < depth; k += kGemmBlockK) {
      block.compute(row, k, std::min(kGemmBlockK, depth - k), rows, k > 0 || accumulate == Accumulate::kAdd);
    }
  }
}

}  // namespace penstock
