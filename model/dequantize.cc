#include "model/dequantize.h"

#include <array>
#include <cstring>

#include "base/check.h"
#include "kernels/dtype.h"

namespace penstock {
namespace {

constexpr std::array<GgufTypeInfo, 10> kTypes = {{{GgufType::kF32, "F32", 1, 4},
                                                  {GgufType::kF16, "F16", 1, 2},
                                                  {GgufType::kBf16, "BF16", 1, 2},
                                                  {GgufType::kQ8_0, "Q8_0", 32, 34},
                                                  {GgufType::kQ4_0, "Q4_0", 32, 18},
                                                  {GgufType::kQ4_1, "Q4_1", 32, 20},
                                                  {GgufType::kQ5_0, "Q5_0", 32, 22},
                                                  {GgufType::kQ5_1, "Q5_1", 32, 24},
                                                  {GgufType::kQ4K, "Q4_K", 256, 144},
                                                  {GgufType::kQ6K, "Q6_K", 256, 210}}};

template <typename T>
T load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

float load_f16(const uint8_t* from) { return to_float(F16{load<uint16_t>(from)}); }

int low(uint8_t byte) { return byte & 0xF; }
int high(uint8_t byte) { return byte >> 4; }

void expand_f32(const uint8_t* block, float* out) { *out = load<float>(block); }
void expand_f16(const uint8_t* block, float* out) { *out = load_f16(block); }
void expand_bf16(const uint8_t* block, float* out) { *out = to_float(Bf16{load<uint16_t>(block)}); }

// f16 d; i8 q[32]: d * q
void expand_q8_0(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(static_cast<int8_t>(block[2 + i])) * d;
}

// f16 d; u8 q[16], low nibbles are elements 0..15, high ones 16..31: d * (q - 8)
void expand_q4_0(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<float>(low(block[2 + i]) - 8) * d;
    out[i + 16] = static_cast<float>(high(block[2 + i]) - 8) * d;
  }
}

// f16 d, m; nibbles as in Q4_0: d * q + m
void expand_q4_1(const uint8_t* block, float* out) {
  const float d = load_f16(block), m = load_f16(block + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<float>(low(block[4 + i])) * d + m;
    out[i + 16] = static_cast<float>(high(block[4 + i])) * d + m;
  }
}

// The fifth bit of element i is bit i of a u32.
int fifth_bit(uint32_t bits, int i) { return static_cast<int>((bits >> i) & 1U) << 4; }

// f16 d; u32 fifth bits; nibbles: d * (q - 16)
void expand_q5_0(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  const uint32_t bits = load<uint32_t>(block + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<float>((low(block[6 + i]) | fifth_bit(bits, i)) - 16) * d;
    out[i + 16] = static_cast<float>((high(block[6 + i]) | fifth_bit(bits, i + 16)) - 16) * d;
  }
}

// f16 d, m; u32 fifth bits; nibbles: d * q + m
void expand_q5_1(const uint8_t* block, float* out) {
  const float d = load_f16(block), m = load_f16(block + 2);
  const uint32_t bits = load<uint32_t>(block + 4);
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<float>(low(block[8 + i]) | fifth_bit(bits, i)) * d + m;
    out[i + 16] = static_cast<float>(high(block[8 + i]) | fifth_bit(bits, i + 16)) * d + m;
  }
}

// Eight 6-bit (scale, minimum) pairs in 12 bytes: the first four plain, the upper two bits of the last four
// in the top bits of the first eight bytes.
struct ScaleMin {
  int scale, min;
};
ScaleMin unpack_k4(const uint8_t* s, int i) {
  if (i < 4) return {s[i] & 63, s[i + 4] & 63};
  return {(s[i + 4] & 0xF) | ((s[i - 4] >> 6) << 4), (s[i + 4] >> 4) | ((s[i] >> 6) << 4)};
}

// f16 d, dmin; u8 scales[12]; u8 q[128]: 32 bytes hold 64 elements, low nibbles first. d*scale*q - dmin*min
void expand_q4_k(const uint8_t* block, float* out) {
  const float d = load_f16(block), d_min = load_f16(block + 2);
  const uint8_t* scales = block + 4;
  const uint8_t* q = block + 16;
  for (int group = 0; group < 8; ++group) {
    const ScaleMin packed = unpack_k4(scales, group);
    const float scale = d * static_cast<float>(packed.scale), min = d_min * static_cast<float>(packed.min);
    const uint8_t* bytes = q + group / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int value = group % 2 == 0 ? low(bytes[i]) : high(bytes[i]);
      out[group * 32 + i] = scale * static_cast<float>(value) - min;
    }
  }
}

// u8 ql[128] low nibbles, u8 qh[64] two upper bits, i8 scales[16] for 16 elements each, f16 d at the end:
// d * scale * (q - 32). Each half of 128 elements takes 64 bytes of ql and 32 of qh.
void expand_q6_k(const uint8_t* block, float* out) {
  const float d = load_f16(block + 208);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, quarter = i % 128 / 32, column = i % 32;
    const uint8_t nibbles = block[half * 64 + quarter % 2 * 32 + column];
    const int lower = quarter < 2 ? low(nibbles) : high(nibbles);
    const int upper = (block[128 + half * 32 + column] >> (2 * quarter)) & 3;
    const float scale = d * static_cast<float>(static_cast<int8_t>(block[192 + i / 16]));
    out[i] = scale * static_cast<float>((lower | (upper << 4)) - 32);
  }
}

using Expand = void (*)(const uint8_t* block, float* out);
Expand expander(GgufType type) {
  switch (type) {
    case GgufType::kF32:
      return expand_f32;
    case GgufType::kF16:
      return expand_f16;
    case GgufType::kBf16:
      return expand_bf16;
    case GgufType::kQ8_0:
      return expand_q8_0;
    case GgufType::kQ4_0:
      return expand_q4_0;
    case GgufType::kQ4_1:
      return expand_q4_1;
    case GgufType::kQ5_0:
      return expand_q5_0;
    case GgufType::kQ5_1:
      return expand_q5_1;
    case GgufType::kQ4K:
      return expand_q4_k;
    case GgufType::kQ6K:
      return expand_q6_k;
  }
  return nullptr;
}

}  // namespace

const GgufTypeInfo* find_gguf_type(uint32_t type) {
  for (const GgufTypeInfo& info : kTypes) {
    if (static_cast<uint32_t>(info.type) == type) return &info;
  }
  return nullptr;
}

std::string_view gguf_type_name(uint32_t type) {
  if (const GgufTypeInfo* info = find_gguf_type(type)) return info->name;
  switch (type) {
    case 9:
      return "Q8_1";
    case 10:
      return "Q2_K";
    case 11:
      return "Q3_K";
    case 13:
      return "Q5_K";
    case 15:
      return "Q8_K";
    case 20:
      return "IQ4_NL";
    case 23:
      return "IQ4_XS";
    default:
      return "an unknown type";
  }
}

std::string_view supported_gguf_types() { return "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q6_K"; }

void dequantize(GgufType type, std::span<const std::byte> blocks, std::span<float> out) {
  const GgufTypeInfo* info = find_gguf_type(static_cast<uint32_t>(type));
  CHECK(info != nullptr);
  const int64_t count = static_cast<int64_t>(out.size()) / info->block_elements;
  CHECK_EQ(count * info->block_elements, static_cast<int64_t>(out.size()));
  CHECK_EQ(count * info->block_bytes, static_cast<int64_t>(blocks.size()));
  const Expand expand = expander(type);
  const auto* from = reinterpret_cast<const uint8_t*>(blocks.data());
  for (int64_t i = 0; i < count; ++i)
    expand(from + i * info->block_bytes, out.data() + i * info->block_elements);
}

}  // namespace penstock
