// safetensors files: a JSON header and raw little-endian tensors. Reading is by memory map; writing streams.
//
// Format: u64 length N, N bytes of JSON {name: {"dtype", "shape", "data_offsets": [begin, end]}}, then data;
// offsets count from the end of the header. Readers are immutable once open and may be used from any thread.
// Every size is checked against the file before anything is allocated or read by it, and tensors must tile
// the data without gap or overlap, as the format demands. Errors name file, tensor and offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/dtype.h"
#include "model/mapped_file.h"

namespace penstock {

struct TensorView {
  std::string name;
  std::string dtype_name;  // as the file spells it: "F32", "BF16", "I64" ...
  std::vector<int64_t> shape;
  int64_t offset = 0;  // from the start of the file
  std::span<const std::byte> data;

  int64_t elements() const;
  // kUnsupported unless F32, BF16 or F16.
  [[nodiscard]] Result<DType> dtype() const;
};

class SafetensorsFile {
 public:
  [[nodiscard]] static Result<SafetensorsFile> open(const std::string& path);
  // `bytes` must outlive the result's views; `path` serves error messages.
  [[nodiscard]] static Result<std::vector<TensorView>> parse(std::span<const std::byte> bytes,
                                                             const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<TensorView>& tensors() const { return tensors_; }  // by offset
  // nullptr when there is none of that name.
  const TensorView* find(std::string_view name) const;

 private:
  std::string path_;
  MappedFile file_;
  std::vector<TensorView> tensors_;
  std::vector<uint32_t> by_name_;  // indices into tensors_, sorted by name
};

// What a file will hold, in order. `dtype`: kF32, kBf16 or kF16.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
};

// Writes the header at once, then the tensors' bytes exactly in the order and number announced.
class SafetensorsWriter {
 public:
  [[nodiscard]] static Result<SafetensorsWriter> create(const std::string& path,
                                                        const std::vector<TensorSpec>& specs);
  SafetensorsWriter(SafetensorsWriter&&) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) noexcept;
  ~SafetensorsWriter();  // without finish(): the file is left incomplete

  [[nodiscard]] Status append(std::span<const std::byte> bytes);
  // Checks that every announced byte came, and flushes to disk.
  [[nodiscard]] Status finish();

 private:
  struct State;
  explicit SafetensorsWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace penstock
