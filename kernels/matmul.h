// Matrix product with packed weights: y = x · Wᵀ, or y += x · Wᵀ.
//
// x: [M, K] f32; W: [N, K] bf16 or f32, packed once at load; y: [M, N] f32, not overlapping x. Every output
// element is one sum over k in rising order, computed by the same operations whatever M, thread or tile, so a
// row's result is the same in any batch, bit for bit; kAdd adds the finished sum. With bf16 weights in AMX
// tiles, x is rounded to bf16 as well; every other level multiplies in f32.
// Reference: tests/reference/matmul_reference.h.
#pragma once

#include <cstdint>

#include "kernels/device.h"
#include "kernels/isa.h"
#include "kernels/tensor.h"

namespace penstock {

// How packed weights lie in memory; panels of 32 output columns, the last one padded with zeros.
enum class PanelLayout : uint8_t {
  kF32,   // [N/32][K][32] f32
  kBf16,  // [N/32][K][16] pairs (column j, column j + 16) of bf16: a load and a shift give two f32 vectors
  kBf16Tiles  // [N/32][K/32][2][16][16] pairs (k, k + 1) of bf16: two AMX tiles of 16 columns, K padded
};

inline constexpr int64_t kPanelColumns = 32;

// A view of packed weights: it owns nothing. Memory is of the stream's device and aligned to 64 bytes.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  // data: at least packed_bytes(n, k, dtype, isa) bytes. dtype: kF32 or kBf16.
  PackedMatrix(void* data, int64_t n, int64_t k, DType dtype, Isa isa);

  // n, k > 0. Depends on the instruction set: a slot packed for one level is of no use to another layout.
  static int64_t packed_bytes(int64_t n, int64_t k, DType dtype, Isa isa);

  // Packs rows [first_row, first_row + source.rows) of W. Rows may come piecewise and in any order, so that a
  // fused matrix is packed from unfused tensors; disjoint rows may be packed by different threads. source:
  // host memory, kF32, kBf16 or kF16, cols == k; values are converted to this matrix's dtype. Whoever packs
  // must cover every row; padding is written along with the row before it.
  void pack_rows(int64_t first_row, const WeightMatrix& source);

  int64_t n() const { return n_; }
  int64_t k() const { return k_; }
  DType dtype() const { return dtype_; }
  PanelLayout layout() const { return layout_; }
  const void* data() const { return data_; }
  int64_t panels() const { return (n_ + kPanelColumns - 1) / kPanelColumns; }
  int64_t panel_bytes() const;

 private:
  void* data_ = nullptr;
  int64_t n_ = 0;
  int64_t k_ = 0;
  DType dtype_ = DType::kF32;
  PanelLayout layout_ = PanelLayout::kF32;
};

enum class Accumulate : uint8_t { kOverwrite, kAdd };

void matmul(Stream& stream, Matrix<const float> x, const PackedMatrix& weights, Matrix<float> y,
            Accumulate accumulate = Accumulate::kOverwrite);

}  // namespace penstock
