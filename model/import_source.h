// What an import writes: tensors row by row, and the small files beside them. Private to the room.
//
// An ImportSource refers to mapped files it owns; reading a row allocates nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "kernels/dtype.h"

namespace penstock {

struct ImportTensor {
  std::string name;
  std::vector<int64_t> shape;
  // Row `row` as f32; a row is the last dimension, a vector is one row.
  std::function<void(int64_t row, std::span<float> out)> read_row;

  int64_t cols() const { return shape.back(); }
  int64_t rows() const {
    int64_t product = 1;
    for (size_t i = 0; i + 1 < shape.size(); ++i) product *= shape[i];
    return product;
  }
};

struct ImportSource {
  std::shared_ptr<const void> files;  // keeps the mappings alive
  std::vector<ImportTensor> tensors;
  std::vector<std::pair<std::string, std::string>> texts;  // file name, content; config.json among them
  std::string architecture;
};

// `dtype` is what config.json will say of the weights.
[[nodiscard]] Result<ImportSource> open_gguf_source(const std::string& path, DType dtype);
[[nodiscard]] Result<ImportSource> open_hf_source(const std::string& dir, DType dtype);

// "float32" or "bfloat16", as config.json spells them.
[[nodiscard]] std::string torch_dtype_name(DType dtype);

}  // namespace penstock
