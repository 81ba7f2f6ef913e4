// Vectors of 8 floats on AVX2 and FMA. Interface and rules of use: simd_portable.h.
#pragma once

#include <immintrin.h>

#include "kernels/simd_portable.h"

namespace penstock {

struct Simd8 {
  static constexpr int kLanes = 8;
  static constexpr int kRegisters = 16;
  __m256 r;

  static Simd8 zero() { return {_mm256_setzero_ps()}; }
  static Simd8 set(float x) { return {_mm256_set1_ps(x)}; }
  static Simd8 load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static Simd8 load_bf16(const uint16_t* p) {
    const __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(bits, 16))};
  }
  static void load_bf16_pairs(const uint32_t* p, Simd8& low, Simd8& high) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    low.r = _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
    high.r = _mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32(-65536)));
  }
  void store(float* p) const { _mm256_storeu_ps(p, r); }
  static Simd8 load_first(const float* p, int64_t count) {
    return {_mm256_maskload_ps(p, prefix_mask(count))};
  }
  static Simd8 load_bf16_first(const uint16_t* p, int64_t count) {
    alignas(16) uint16_t lanes[kLanes] = {};
    for (int64_t i = 0; i < count && i < kLanes; ++i) lanes[i] = p[i];
    return load_bf16(lanes);
  }
  void store_first(float* p, int64_t count) const { _mm256_maskstore_ps(p, prefix_mask(count), r); }

  friend Simd8 operator+(Simd8 a, Simd8 b) { return {_mm256_add_ps(a.r, b.r)}; }
  friend Simd8 operator-(Simd8 a, Simd8 b) { return {_mm256_sub_ps(a.r, b.r)}; }
  friend Simd8 operator*(Simd8 a, Simd8 b) { return {_mm256_mul_ps(a.r, b.r)}; }
  friend Simd8 operator/(Simd8 a, Simd8 b) { return {_mm256_div_ps(a.r, b.r)}; }
  static Simd8 fma(Simd8 a, Simd8 b, Simd8 c) { return {_mm256_fmadd_ps(a.r, b.r, c.r)}; }
  static Simd8 max(Simd8 a, Simd8 b) { return {_mm256_max_ps(a.r, b.r)}; }
  static Simd8 min(Simd8 a, Simd8 b) { return {_mm256_min_ps(a.r, b.r)}; }
  static bool all_below(Simd8 a, Simd8 b) {
    return _mm256_movemask_ps(_mm256_cmp_ps(a.r, b.r, _CMP_LT_OQ)) == 0xFF;
  }
  static Simd8 round(Simd8 a) {
    return {_mm256_round_ps(a.r, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  static Simd8 exp2_integer(Simd8 n) {
    const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n.r), _mm256_set1_epi32(127));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(biased, 23))};
  }
  static Simd8 first(int64_t count, Simd8 a, Simd8 b) {
    return {_mm256_blendv_ps(b.r, a.r, _mm256_castsi256_ps(prefix_mask(count)))};
  }
  static Simd8 zero_where_below(Simd8 x, Simd8 limit, Simd8 value) {
    return {_mm256_andnot_ps(_mm256_cmp_ps(x.r, limit.r, _CMP_LT_OQ), value.r)};
  }
  static void transpose_block(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
    __m256 v[8], t[8];
    PENSTOCK_UNROLL
    for (int i = 0; i < 8; ++i) v[i] = _mm256_loadu_ps(from + i * from_stride);
    PENSTOCK_UNROLL
    for (int i = 0; i < 8; i += 2) {
      t[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
      t[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    }
    PENSTOCK_UNROLL
    for (int i = 0; i < 8; i += 4) {
      v[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
      v[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xEE);
      v[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
      v[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
    }
    PENSTOCK_UNROLL
    for (int i = 0; i < 4; ++i) {
      _mm256_storeu_ps(to + i * to_stride, _mm256_permute2f128_ps(v[i], v[i + 4], 0x20));
      _mm256_storeu_ps(to + (i + 4) * to_stride, _mm256_permute2f128_ps(v[i], v[i + 4], 0x31));
    }
  }
  float sum() const {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(r), _mm256_extractf128_ps(r, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
  float highest() const {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(r), _mm256_extractf128_ps(r, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
  }

 private:
  static __m256i prefix_mask(int64_t count) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(count)), lane);
  }
};

}  // namespace penstock
