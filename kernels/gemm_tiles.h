// How gemm.cc hands a chunk of work to the code of one instruction set, and that code as a template over the
// vector type.
#pragma once

#include <cstdint>

#include "kernels/register_tile.h"

namespace penstock {

inline constexpr int64_t kGemmBlockK =
    768;  // a panel of 32 columns is 96 KB then, well inside a level-2 cache

// A matrix in memory, or its transpose.
struct GemmSource {
  const float* data;
  int64_t stride;
  bool transposed;
  bool to_bf16;  // round what is read
};

// Some rows of C times 32 columns: rows of A as they lie, columns of B packed on the way.
struct GemmTask {
  const float* a;  // [rows, k]
  int64_t a_stride;
  int64_t rows;
  int64_t k;        // <= kGemmBlockK
  GemmSource b;     // at (first k, first column)
  int64_t columns;  // <= 32
  float* c;
  int64_t c_stride;
  bool add;
};

// Copies op(source)[rows, cols] to a dense-rowed matrix.
struct GemmCopy {
  GemmSource source;
  int64_t rows;
  int64_t cols;
  float* to;
  int64_t to_stride;
};

struct GemmKernels {
  void (*copy)(const GemmCopy& copy);
  void (*panel)(const GemmTask& task);
};
GemmKernels gemm_kernels_portable();
GemmKernels gemm_kernels_avx2();
GemmKernels gemm_kernels_avx512();

template <typename V>
struct GemmTiles {
  static constexpr GemmKernels kernels() { return {copy, panel}; }

  static void copy(const GemmCopy& c) {
    if (c.source.transposed) {
      transpose(c.source.data, c.source.stride, c.cols, c.rows, c.to, c.to_stride);
    } else {
      for (int64_t r = 0; r < c.rows; ++r)
        copy_row(c.source.data + r * c.source.stride, c.cols, c.to + r * c.to_stride);
    }
    if (!c.source.to_bf16) return;
    for (int64_t r = 0; r < c.rows; ++r) round_row(c.to + r * c.to_stride, c.cols);
  }

  static void panel(const GemmTask& task) {
    alignas(64) float packed[kGemmBlockK * 32];
    if (task.columns < 32) {
      for (int64_t i = 0; i < task.k * 32; i += V::kLanes) V::zero().store(packed + i);
    }
    copy({task.b, task.k, task.columns, packed, 32});
    compute_panel<V, F32Panel>(task.rows, {.x = task.a,
                                           .x_stride = task.a_stride,
                                           .panel = packed,
                                           .k = task.k,
                                           .init = nullptr,
                                           .y = task.c,
                                           .y_stride = task.c_stride,
                                           .columns = task.columns,
                                           .add = task.add,
                                           .prefetch = nullptr,
                                           .prefetch_step = 0});
  }

 private:
  static void copy_row(const float* from, int64_t count, float* to) {
    int64_t i = 0;
    for (; i + V::kLanes <= count; i += V::kLanes) V::load(from + i).store(to + i);
    for (; i < count; ++i) to[i] = from[i];
  }

  static void round_row(float* row, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      uint32_t bits;
      std::memcpy(&bits, row + i, sizeof bits);
      const uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) & 0xFFFF0000U;
      const bool nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
      bits = nan ? bits | 0x400000U : rounded;
      std::memcpy(row + i, &bits, sizeof bits);
    }
  }

  // to[c][r] = from[r][c] for a matrix of rows x cols, square blocks first, then the edges.
  static void transpose(const float* from, int64_t from_stride, int64_t rows, int64_t cols, float* to,
                        int64_t to_stride) {
    constexpr int64_t kSide = V::kLanes;
    const int64_t whole_rows = rows / kSide * kSide, whole_cols = cols / kSide * kSide;
    for (int64_t c = 0; c < whole_cols; c += kSide) {
      for (int64_t r = 0; r < whole_rows; r += kSide)
        V::transpose_block(from + r * from_stride + c, from_stride, to + c * to_stride + r, to_stride);
      for (int64_t r = whole_rows; r < rows; ++r)
        for (int64_t i = c; i < c + kSide; ++i) to[i * to_stride + r] = from[r * from_stride + i];
    }
    for (int64_t c = whole_cols; c < cols; ++c)
      for (int64_t r = 0; r < rows; ++r) to[c * to_stride + r] = from[r * from_stride + c];
  }
};

}  // namespace penstock
