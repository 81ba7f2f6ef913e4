// Views of matrices in device memory: they own nothing and are passed by value.
//
// `data` is a pointer of the device the stream belongs to; host code may follow it only for DeviceKind::kCpu.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/check.h"
#include "kernels/dtype.h"

namespace penstock {

// Row-major; `stride` is the distance between rows, in elements.
template <typename T>
struct Matrix {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  Matrix() = default;
  Matrix(T* first, int64_t row_count, int64_t col_count)
      : data(first), rows(row_count), cols(col_count), stride(col_count) {}
  Matrix(T* first, int64_t row_count, int64_t col_count, int64_t row_stride)
      : data(first), rows(row_count), cols(col_count), stride(row_stride) {}

  T* row(int64_t i) const { return data + i * stride; }
  Matrix row_slice(int64_t first, int64_t count) const {
    CHECK(first >= 0 && count >= 0 && first + count <= rows);
    return {row(first), count, cols, stride};
  }
  Matrix col_slice(int64_t first, int64_t count) const {
    CHECK(first >= 0 && count >= 0 && first + count <= cols);
    return {data + first, rows, count, stride};
  }
  operator Matrix<const T>() const  // NOLINT: a view of mutable data is also one of constant data
      requires(!std::is_const_v<T>) {
    return {data, rows, cols, stride};
  }
};

// Weights whose element type is known at run time: f32 or bf16.
struct WeightVector {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t size = 0;
};

struct WeightMatrix {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  // elements
};

}  // namespace penstock
