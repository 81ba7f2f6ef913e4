// The loops of RowOps, written once over the vector types of simd_*.h. Each row_ops_*_cpu.cc instantiates
// them for its own type, so nothing is shared between instruction sets.
#pragma once

#include "kernels/row_ops_cpu.h"
#include "kernels/simd_portable.h"

namespace penstock {

template <typename V>
struct RowOpsSimd {
  static constexpr int64_t kLanes = V::kLanes;

  static V load(const float* p) { return V::load(p); }
  static V load(const Bf16* p) { return V::load_bf16(&p->bits); }
  static V load_first(const float* p, int64_t count) { return V::load_first(p, count); }
  static V load_first(const Bf16* p, int64_t count) { return V::load_bf16_first(&p->bits, count); }

  static float sum_of_squares(const float* x, int64_t n) {
    V a0 = V::zero(), a1 = V::zero(), a2 = V::zero(), a3 = V::zero();
    int64_t i = 0;
    for (; i + 4 * kLanes <= n; i += 4 * kLanes) {  // four chains hide the latency of the additions
      const V x0 = V::load(x + i), x1 = V::load(x + i + kLanes);
      const V x2 = V::load(x + i + 2 * kLanes), x3 = V::load(x + i + 3 * kLanes);
      a0 = V::fma(x0, x0, a0);
      a1 = V::fma(x1, x1, a1);
      a2 = V::fma(x2, x2, a2);
      a3 = V::fma(x3, x3, a3);
    }
    for (; i + kLanes <= n; i += kLanes) {
      const V x0 = V::load(x + i);
      a0 = V::fma(x0, x0, a0);
    }
    if (i < n) {
      const V x0 = V::load_first(x + i, n - i);
      a0 = V::fma(x0, x0, a0);
    }
    return ((a0 + a1) + (a2 + a3)).sum();
  }

  template <typename Weight>
  static void rmsnorm(const float* x, const Weight* weight, float eps, int64_t n, float* y) {
    const float mean = sum_of_squares(x, n) / static_cast<float>(n);
    const V scale = V::set(1.0F / __builtin_sqrtf(mean + eps));
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) (V::load(x + i) * scale * load(weight + i)).store(y + i);
    if (i < n)
      (V::load_first(x + i, n - i) * scale * load_first(weight + i, n - i)).store_first(y + i, n - i);
  }

  static V silu_times(V gate, V up) {
    const V exp = simd_exp(V::min(V::zero() - gate, V::set(88.0F)));  // beyond: e^88 is infinity enough
    return gate / (V::set(1.0F) + exp) * up;
  }

  static void swiglu(const float* gate, const float* up, int64_t n, float* y) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) silu_times(V::load(gate + i), V::load(up + i)).store(y + i);
    if (i < n) {
      silu_times(V::load_first(gate + i, n - i), V::load_first(up + i, n - i)).store_first(y + i, n - i);
    }
  }

  static void rope_head(float* x, const float* cosines, int64_t half) {
    const float* sines = cosines + half;
    float* upper = x + half;
    int64_t i = 0;
    for (; i + kLanes <= half; i += kLanes) {
      const V a = V::load(x + i), b = V::load(upper + i), c = V::load(cosines + i), s = V::load(sines + i);
      (a * c - b * s).store(x + i);
      (b * c + a * s).store(upper + i);
    }
    if (const int64_t rest = half - i; rest > 0) {
      const V a = V::load_first(x + i, rest), b = V::load_first(upper + i, rest);
      const V c = V::load_first(cosines + i, rest), s = V::load_first(sines + i, rest);
      (a * c - b * s).store_first(x + i, rest);
      (b * c + a * s).store_first(upper + i, rest);
    }
  }

  static void widen(const Bf16* x, int64_t n, float* y) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) load(x + i).store(y + i);
    if (i < n) load_first(x + i, n - i).store_first(y + i, n - i);
  }

  static void add(const float* x, int64_t n, float* y) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) (V::load(y + i) + V::load(x + i)).store(y + i);
    if (i < n) (V::load_first(y + i, n - i) + V::load_first(x + i, n - i)).store_first(y + i, n - i);
  }

  static bool block_maxima(const float* x, int64_t n, float* maxima) {
    const V infinity = V::set(__builtin_inff()), lowest = V::zero() - infinity;
    bool good = true;
    for (int64_t begin = 0; begin < n; begin += kSamplingBlock) {
      const int64_t end = begin + kSamplingBlock < n ? begin + kSamplingBlock : n;
      V highest = lowest;
      int64_t i = begin;
      for (; i + kLanes <= end; i += kLanes) {
        const V value = V::load(x + i);
        good &= V::all_below(value, infinity);
        highest = V::max(highest, value);
      }
      if (i < end) {
        const V value = V::first(end - i, V::load_first(x + i, end - i), lowest);
        good &= V::all_below(value, infinity);
        highest = V::max(highest, value);
      }
      maxima[begin / kSamplingBlock] = highest.highest();
    }
    return good;
  }

  static void exp_sums(const float* x, int64_t n, float highest, float inverse_temperature, float* sums) {
    const V shift = V::set(highest), factor = V::set(inverse_temperature);
    for (int64_t begin = 0; begin < n; begin += kSamplingChunk) {
      const int64_t end = begin + kSamplingChunk < n ? begin + kSamplingChunk : n;
      V sum = V::zero();
      int64_t i = begin;
      for (; i + kLanes <= end; i += kLanes) sum = sum + simd_exp((V::load(x + i) - shift) * factor);
      if (i < end) {
        const V weight = simd_exp((V::load_first(x + i, end - i) - shift) * factor);
        sum = sum + V::first(end - i, weight, V::zero());
      }
      sums[begin / kSamplingChunk] = sum.sum();
    }
  }

  static void exp_weights(const float* x, int64_t n, float highest, float inverse_temperature, float* y) {
    const V shift = V::set(highest), factor = V::set(inverse_temperature);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) simd_exp((V::load(x + i) - shift) * factor).store(y + i);
    if (i < n) simd_exp((V::load_first(x + i, n - i) - shift) * factor).store_first(y + i, n - i);
  }

  static constexpr RowOps table() {
    return {.rmsnorm_f32 = rmsnorm<float>,
            .rmsnorm_bf16 = rmsnorm<Bf16>,
            .swiglu = swiglu,
            .rope_head = rope_head,
            .widen = widen,
            .add = add,
            .block_maxima = block_maxima,
            .exp_sums = exp_sums,
            .exp_weights = exp_weights};
  }
};

}  // namespace penstock
