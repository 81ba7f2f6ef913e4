// Checkpoint: the tensors of a Hugging Face folder, from model.safetensors or from the shards that
// model.safetensors.index.json lists. Immutable once open; any thread may read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/safetensors.h"

namespace penstock {

class Checkpoint {
 public:
  [[nodiscard]] static Result<Checkpoint> open(const std::string& dir);

  // The tensor, if it is there with exactly this shape; else an error naming folder or file, tensor and, for
  // a wrong shape, both shapes and the offset.
  [[nodiscard]] Result<TensorView> find(std::string_view name, const std::vector<int64_t>& shape) const;
  bool contains(std::string_view name) const;
  std::vector<std::string> names() const;  // file by file, by offset
  const std::vector<SafetensorsFile>& files() const { return files_; }
  // Bytes of all tensors.
  int64_t bytes() const;

 private:
  std::string dir_;
  std::vector<SafetensorsFile> files_;
};

}  // namespace penstock
