// Vectors of 4 floats in plain C++ (vector extensions), for machines without AVX2, and the helpers that every
// vector type shares.
//
// Simd4, Simd8 (simd_avx2.h) and Simd16 (simd_avx512.h) have one interface; kernels are templates over it.
// A file that includes a wider one sets its own compile flags, so it must be reached through run-time
// dispatch only, and should keep to raw pointers: an inline function of a shared header that is emitted there
// could be the copy that the linker keeps for everybody.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__clang__)
#define PENSTOCK_UNROLL _Pragma("unroll")
#else
#define PENSTOCK_UNROLL _Pragma("GCC unroll 64")
#endif

namespace penstock {

struct Simd4 {
  static constexpr int kLanes = 4;
  static constexpr int kRegisters = 16;  // of the architecture; bounds the size of register tiles
  using Reg = float __attribute__((vector_size(16)));
  using Bits = uint32_t __attribute__((vector_size(16)));
  using Ints = int32_t __attribute__((vector_size(16)));
  Reg r;

  static Simd4 zero() { return {Reg{}}; }
  static Simd4 set(float x) { return {Reg{x, x, x, x}}; }
  static Simd4 load(const float* p) {
    Simd4 v;
    std::memcpy(&v.r, p, sizeof v.r);
    return v;
  }
  static Simd4 load_bf16(const uint16_t* p) {
    const Bits bits = {p[0], p[1], p[2], p[3]};
    return {std::bit_cast<Reg>(bits << 16)};
  }
  // Four pairs of bf16: the low halves, then the high halves.
  static void load_bf16_pairs(const uint32_t* p, Simd4& low, Simd4& high) {
    Bits bits;
    std::memcpy(&bits, p, sizeof bits);
    low.r = std::bit_cast<Reg>(bits << 16);
    high.r = std::bit_cast<Reg>(bits & 0xFFFF0000U);
  }
  void store(float* p) const { std::memcpy(p, &r, sizeof r); }
  // Touch only the first `count` elements of memory; the other lanes are zero.
  static Simd4 load_first(const float* p, int64_t count) {
    float lanes[kLanes] = {};
    for (int64_t i = 0; i < count && i < kLanes; ++i) lanes[i] = p[i];
    return load(lanes);
  }
  static Simd4 load_bf16_first(const uint16_t* p, int64_t count) {
    uint16_t lanes[kLanes] = {};
    for (int64_t i = 0; i < count && i < kLanes; ++i) lanes[i] = p[i];
    return load_bf16(lanes);
  }
  void store_first(float* p, int64_t count) const {
    for (int64_t i = 0; i < count && i < kLanes; ++i) p[i] = r[i];
  }

  friend Simd4 operator+(Simd4 a, Simd4 b) { return {a.r + b.r}; }
  friend Simd4 operator-(Simd4 a, Simd4 b) { return {a.r - b.r}; }
  friend Simd4 operator*(Simd4 a, Simd4 b) { return {a.r * b.r}; }
  friend Simd4 operator/(Simd4 a, Simd4 b) { return {a.r / b.r}; }
  // a * b + c; here with two roundings, in the wider types with one.
  static Simd4 fma(Simd4 a, Simd4 b, Simd4 c) { return {a.r * b.r + c.r}; }
  static Simd4 max(Simd4 a, Simd4 b) { return {a.r > b.r ? a.r : b.r}; }
  static Simd4 min(Simd4 a, Simd4 b) { return {a.r < b.r ? a.r : b.r}; }
  static bool all_below(Simd4 a, Simd4 b) {  // false where either is NaN
    return (a.r[0] < b.r[0]) & (a.r[1] < b.r[1]) & (a.r[2] < b.r[2]) & (a.r[3] < b.r[3]);
  }
  static Simd4 round(Simd4 a) {  // ties to even; |a| < 2^22
    const Reg magic = set(0x1.8p23F).r;
    return {(a.r + magic) - magic};
  }
  // 2^n for integral n in [-126, 127].
  static Simd4 exp2_integer(Simd4 n) {
    return {std::bit_cast<Reg>((__builtin_convertvector(n.r, Ints) + 127) << 23)};
  }
  // Lanes below `count` from a, the others from b.
  static Simd4 first(int64_t count, Simd4 a, Simd4 b) {
    const Ints lane = {0, 1, 2, 3};
    const int32_t n = static_cast<int32_t>(count);
    return {lane < Ints{n, n, n, n} ? a.r : b.r};
  }
  // Lanes where x < limit become zero.
  static Simd4 zero_where_below(Simd4 x, Simd4 limit, Simd4 value) {
    return {x.r < limit.r ? Reg{} : value.r};
  }
  // to[c][r] = from[r][c] for kLanes rows and columns.
  static void transpose_block(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
    for (int r = 0; r < kLanes; ++r)
      for (int c = 0; c < kLanes; ++c) to[c * to_stride + r] = from[r * from_stride + c];
  }
  float sum() const { return (r[0] + r[2]) + (r[1] + r[3]); }
  float highest() const {
    const float a = r[0] > r[2] ? r[0] : r[2], b = r[1] > r[3] ? r[1] : r[3];
    return a > b ? a : b;
  }
};

// exp(x) for x <= 88: x = n ln 2 + r, |r| <= ln 2 / 2, and a polynomial in r of degree 7 (Taylor; the error
// of the last term is below 1e-8). Relative error under 2e-7; exp(0) is exactly 1, below -87.3 exactly 0.
template <typename V>
inline V simd_exp(V x) {
  const V low = V::set(-87.33F);
  const V clamped = V::max(x, low);
  const V n = V::round(clamped * V::set(1.44269504F));
  V r = V::fma(n, V::set(-0.693359375F), clamped);  // ln 2 in two parts: n times the first is exact
  r = V::fma(n, V::set(2.12194440e-4F), r);
  V p = V::set(1.0F / 5040);
  p = V::fma(p, r, V::set(1.0F / 720));
  p = V::fma(p, r, V::set(1.0F / 120));
  p = V::fma(p, r, V::set(1.0F / 24));
  p = V::fma(p, r, V::set(1.0F / 6));
  p = V::fma(p, r, V::set(0.5F));
  p = V::fma(p, r, V::set(1.0F));
  p = V::fma(p, r, V::set(1.0F));
  return V::zero_where_below(x, low, p * V::exp2_integer(n));
}

}  // namespace penstock
