// GGUF tensor types and their expansion to f32, exact to the reference layout (ggml's block formats).
//
// Pure functions. A quantised row is a sequence of blocks of 32 or 256 elements; scales are f16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace penstock {

// Values are the file format's.
enum class GgufType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4K = 12,
  kQ6K = 14,
  kBf16 = 30,
};

struct GgufTypeInfo {
  GgufType type;
  std::string_view name;
  int64_t block_elements;
  int64_t block_bytes;
};

// nullptr for a type this build cannot expand. `gguf_type_name` knows the others' names too, for messages.
[[nodiscard]] const GgufTypeInfo* find_gguf_type(uint32_t type);
[[nodiscard]] std::string_view gguf_type_name(uint32_t type);
// "F32, F16, BF16, Q8_0 ...": for messages.
[[nodiscard]] std::string_view supported_gguf_types();

// out.size() must be a multiple of the type's block_elements, and `blocks` hold exactly that many elements.
void dequantize(GgufType type, std::span<const std::byte> blocks, std::span<float> out);

}  // namespace penstock
