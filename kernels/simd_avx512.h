// Vectors of 16 floats on AVX-512 (F, BW, VL, DQ). Interface and rules of use: simd_portable.h.
#pragma once

#include <immintrin.h>

#include "kernels/simd_portable.h"

namespace penstock {

struct Simd16 {
  static constexpr int kLanes = 16;
  static constexpr int kRegisters = 32;
  __m512 r;

  static Simd16 zero() { return {_mm512_setzero_ps()}; }
  static Simd16 set(float x) { return {_mm512_set1_ps(x)}; }
  static Simd16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Simd16 load_bf16(const uint16_t* p) {
    const __m512i bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(bits, 16))};
  }
  static void load_bf16_pairs(const uint32_t* p, Simd16& low, Simd16& high) {
    const __m512i bits = _mm512_loadu_si512(p);
    low.r = _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
    high.r = _mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32(-65536)));
  }
  void store(float* p) const { _mm512_storeu_ps(p, r); }
  static Simd16 load_first(const float* p, int64_t count) {
    return {_mm512_maskz_loadu_ps(prefix_mask(count), p)};
  }
  static Simd16 load_bf16_first(const uint16_t* p, int64_t count) {
    const __m512i bits = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(prefix_mask(count), p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(bits, 16))};
  }
  void store_first(float* p, int64_t count) const { _mm512_mask_storeu_ps(p, prefix_mask(count), r); }

  friend Simd16 operator+(Simd16 a, Simd16 b) { return {_mm512_add_ps(a.r, b.r)}; }
  friend Simd16 operator-(Simd16 a, Simd16 b) { return {_mm512_sub_ps(a.r, b.r)}; }
  friend Simd16 operator*(Simd16 a, Simd16 b) { return {_mm512_mul_ps(a.r, b.r)}; }
  friend Simd16 operator/(Simd16 a, Simd16 b) { return {_mm512_div_ps(a.r, b.r)}; }
  static Simd16 fma(Simd16 a, Simd16 b, Simd16 c) { return {_mm512_fmadd_ps(a.r, b.r, c.r)}; }
  static Simd16 max(Simd16 a, Simd16 b) { return {_mm512_max_ps(a.r, b.r)}; }
  static Simd16 min(Simd16 a, Simd16 b) { return {_mm512_min_ps(a.r, b.r)}; }
  static bool all_below(Simd16 a, Simd16 b) { return _mm512_cmp_ps_mask(a.r, b.r, _CMP_LT_OQ) == 0xFFFF; }
  static Simd16 round(Simd16 a) {
    return {_mm512_roundscale_ps(a.r, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  static Simd16 exp2_integer(Simd16 n) {
    const __m512i biased = _mm512_add_epi32(_mm512_cvtps_epi32(n.r), _mm512_set1_epi32(127));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(biased, 23))};
  }
  static Simd16 first(int64_t count, Simd16 a, Simd16 b) {
    return {_mm512_mask_mov_ps(b.r, prefix_mask(count), a.r)};
  }
  static Simd16 zero_where_below(Simd16 x, Simd16 limit, Simd16 value) {
    return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.r, limit.r, _CMP_NLT_UQ), value.r)};
  }
  static void transpose_block(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
    __m512 v[16], t[16];
    PENSTOCK_UNROLL
    for (int i = 0; i < 16; ++i) v[i] = _mm512_loadu_ps(from + i * from_stride);
    PENSTOCK_UNROLL
    for (int i = 0; i < 16; i += 2) {
      t[i] = _mm512_unpacklo_ps(v[i], v[i + 1]);
      t[i + 1] = _mm512_unpackhi_ps(v[i], v[i + 1]);
    }
    PENSTOCK_UNROLL
    for (int i = 0; i < 16; i += 4) {  // v[i + j]: column j of each group of four, rows i..i+3
      v[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
      v[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xEE);
      v[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
      v[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
    }
    PENSTOCK_UNROLL
    for (int j = 0; j < 4; ++j) {
      const __m512 a = _mm512_shuffle_f32x4(v[j], v[4 + j], 0x88),
                   b = _mm512_shuffle_f32x4(v[8 + j], v[12 + j], 0x88);
      const __m512 c = _mm512_shuffle_f32x4(v[j], v[4 + j], 0xDD),
                   d = _mm512_shuffle_f32x4(v[8 + j], v[12 + j], 0xDD);
      _mm512_storeu_ps(to + j * to_stride, _mm512_shuffle_f32x4(a, b, 0x88));
      _mm512_storeu_ps(to + (4 + j) * to_stride, _mm512_shuffle_f32x4(c, d, 0x88));
      _mm512_storeu_ps(to + (8 + j) * to_stride, _mm512_shuffle_f32x4(a, b, 0xDD));
      _mm512_storeu_ps(to + (12 + j) * to_stride, _mm512_shuffle_f32x4(c, d, 0xDD));
    }
  }
  float sum() const {
    const __m256 s = _mm256_add_ps(_mm512_castps512_ps256(r), _mm512_extractf32x8_ps(r, 1));
    __m128 t = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    t = _mm_add_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_add_ss(t, _mm_movehdup_ps(t)));
  }
  float highest() const { return _mm512_reduce_max_ps(r); }

 private:
  static __mmask16 prefix_mask(int64_t count) {
    if (count >= 16) return 0xFFFF;
    return static_cast<__mmask16>(count <= 0 ? 0 : (1U << count) - 1U);
  }
};

}  // namespace penstock
