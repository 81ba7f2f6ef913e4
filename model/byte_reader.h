// A cursor over a file's bytes that cannot leave them. Private to the room.
//
// Reads are little-endian and unaligned. A failed read leaves the cursor where it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace penstock {

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t offset() const { return offset_; }
  size_t remaining() const { return bytes_.size() - offset_; }

  template <typename T>
  std::optional<T> read() {
    if (remaining() < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }
  std::optional<std::span<const std::byte>> take(uint64_t count) {
    if (count > remaining()) return std::nullopt;
    const auto part = bytes_.subspan(offset_, static_cast<size_t>(count));
    offset_ += static_cast<size_t>(count);
    return part;
  }

 private:
  std::span<const std::byte> bytes_;
  size_t offset_ = 0;
};

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// a * b, or nothing when that leaves int64 or a factor is negative.
inline std::optional<int64_t> checked_product(int64_t a, int64_t b) {
  int64_t product = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

}  // namespace penstock
