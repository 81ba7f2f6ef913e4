// GGUF files (versions 2 and 3, little-endian): metadata and tensors, read through a memory map.
//
// Immutable once open; any thread may read. Every count and size is checked against the file before anything
// is allocated or read by it; tensors may not overlap or leave the file. Errors name file, key or tensor, and
// offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "model/dequantize.h"
#include "model/mapped_file.h"

namespace penstock {

// A metadata value. Integers of every width are widened; arrays stay encoded until they are asked for.
struct GgufArray {
  uint32_t element_type = 0;  // the format's value type
  uint64_t count = 0;
  std::span<const std::byte> bytes;
};
using GgufValue = std::variant<uint64_t, int64_t, double, bool, std::string_view, GgufArray>;

struct GgufTensor {
  std::string name;
  GgufType type = GgufType::kF32;
  std::vector<int64_t> shape;  // slowest dimension first, as Hugging Face writes it: [rows, cols]
  int64_t offset = 0;          // from the start of the file
  std::span<const std::byte> data;

  int64_t elements() const;
};

class GgufFile {
 public:
  [[nodiscard]] static Result<GgufFile> open(const std::string& path);
  // `bytes` must outlive the result.
  [[nodiscard]] static Result<GgufFile> parse(std::span<const std::byte> bytes, const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // in the file's order
  const GgufTensor* find(std::string_view name) const;

  // A missing key or a value of another kind is an error that names file and key. The find_ forms give
  // nothing for a missing key, and an error only for a value of another kind.
  bool has(std::string_view key) const { return metadata_.contains(key); }
  [[nodiscard]] Result<int64_t> integer(std::string_view key) const;
  [[nodiscard]] Result<double> number(std::string_view key) const;
  [[nodiscard]] Result<std::string_view> string(std::string_view key) const;
  [[nodiscard]] Result<bool> boolean(std::string_view key) const;
  [[nodiscard]] Result<std::vector<std::string_view>> strings(std::string_view key) const;
  [[nodiscard]] Result<std::vector<int64_t>> integers(std::string_view key) const;
  [[nodiscard]] Result<std::optional<int64_t>> find_integer(std::string_view key) const;
  [[nodiscard]] Result<std::optional<std::string_view>> find_string(std::string_view key) const;

 private:
  friend class GgufParser;
  Failure missing(std::string_view key) const;
  Failure wrong_kind(std::string_view key, std::string_view wanted) const;
  const GgufValue* find_value(std::string_view key) const;

  std::string path_;
  MappedFile file_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

}  // namespace penstock
