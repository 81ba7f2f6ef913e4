// Element types of tensors, and conversions between them, exact to the bit.
//
// Bf16 and F16 are storage types: arithmetic is always in f32. Narrowing rounds to nearest, ties to even, as
// the hardware's conversions and PyTorch do; NaN stays NaN, overflow becomes infinity.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace penstock {

enum class DType : uint8_t { kF32, kBf16, kF16, kI32 };

struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

constexpr int64_t dtype_bytes(DType dtype) { return dtype == DType::kF32 || dtype == DType::kI32 ? 4 : 2; }

constexpr std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kBf16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kI32:
      return "i32";
  }
  return "?";
}

constexpr std::optional<DType> parse_dtype(std::string_view name) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16, DType::kI32}) {
    if (dtype_name(dtype) == name) return dtype;
  }
  return std::nullopt;
}

template <typename T>
inline constexpr DType kDTypeOf = DType::kF32;
template <>
inline constexpr DType kDTypeOf<Bf16> = DType::kBf16;
template <>
inline constexpr DType kDTypeOf<F16> = DType::kF16;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::kI32;

constexpr float to_float(float x) { return x; }
constexpr float to_float(Bf16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

constexpr float to_float(F16 x) {
  const uint32_t sign = uint32_t{x.bits & 0x8000U} << 16;
  const uint32_t exponent = (x.bits >> 10) & 0x1FU, mantissa = x.bits & 0x3FFU;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;  // subnormal or zero: exact in f32
  return sign != 0 ? -magnitude : magnitude;
}

constexpr Bf16 to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return {static_cast<uint16_t>((bits >> 16) | 0x40U)};  // quiet NaN
  return {static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16)};
}

constexpr F16 to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000U, magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return {static_cast<uint16_t>(sign | 0x7E00U)};   // NaN
  if (magnitude >= 0x477FF000U) return {static_cast<uint16_t>(sign | 0x7C00U)};  // rounds to 2^16 or beyond
  if (magnitude < 0x38800000U) {  // below 2^-14: the last bit is worth 2^-24; adding 0.5 rounds there
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000U))};
  }
  const uint32_t rounded = magnitude - 0x38000000U + 0xFFFU + ((magnitude >> 13) & 1U);
  return {static_cast<uint16_t>(sign | (rounded >> 13))};
}

}  // namespace penstock
