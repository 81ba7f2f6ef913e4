// Matrix product of two row-major matrices, as training needs it: C = op(A) · op(B), or C += it.
//
// Forward is x · Wᵀ, the gradient of x is dY · W, the gradient of W is dYᵀ · x. Unlike matmul.h nothing is
// packed beforehand, so weights may change between any two calls. Every element of C is a sum over blocks of
// k in rising order, each a sum over k in rising order, whatever M, N, tile or thread: a row's result is the
// same in any batch and a column's in any shard, bit for bit. Inputs rounded to bf16 are multiplied exactly
// and summed in f32. Reference: tests/reference/gemm_reference.h.
#pragma once

#include <cstdint>

#include "kernels/device.h"
#include "kernels/matmul.h"
#include "kernels/tensor.h"

namespace penstock {

// The matrix as stored, and whether the product takes its transpose.
struct GemmOperand {
  Matrix<const float> matrix;
  bool transposed = false;
  int64_t rows() const { return transposed ? matrix.cols : matrix.rows; }
  int64_t cols() const { return transposed ? matrix.rows : matrix.cols; }
};
inline GemmOperand as_is(Matrix<const float> matrix) { return {matrix, false}; }
inline GemmOperand transposed(Matrix<const float> matrix) { return {matrix, true}; }

enum class GemmInputs : uint8_t { kF32, kRoundedToBf16 };

// a: [M, K], b: [K, N], c: [M, N], after transposition; none may overlap c. With K = 0 the product is zero.
void gemm(Stream& stream, GemmOperand a, GemmOperand b, Matrix<float> c,
          Accumulate accumulate = Accumulate::kOverwrite, GemmInputs inputs = GemmInputs::kF32);

}  // namespace penstock
