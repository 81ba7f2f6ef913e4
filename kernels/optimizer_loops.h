// The loops of optimizer_step.h, compiled once for each instruction set: plain C++ that the compiler widens.
#pragma once

#include <cmath>
#include <cstdint>

namespace penstock {

// Coefficients in f32, ready for the loops.
struct AdamCoefficients {
  float grad_scale, beta1, one_minus_beta1, beta2, one_minus_beta2;
  float rate;             // lr / (1 - beta1^step); for LAMB without lr
  float root_correction;  // 1 / sqrt(1 - beta2^step)
  float eps;
  float decay;  // AdamW: 1 - lr wd; LAMB: wd
};
struct SgdCoefficients {
  float grad_scale, lr, momentum, weight_decay;
};
struct RmsPropCoefficients {
  float grad_scale, lr, alpha, one_minus_alpha, eps, momentum, weight_decay;
};

struct OptimizerLoops {
  void (*adamw)(const AdamCoefficients&, float* w, const float* g, float* m, float* v, int64_t count);
  void (*lamb)(const AdamCoefficients&, const float* w, const float* g, float* m, float* v, float* out,
               int64_t count);
  void (*sgd)(const SgdCoefficients&, float* w, const float* g, float* buffer, int64_t count);
  void (*rmsprop)(const RmsPropCoefficients&, float* w, const float* g, float* v, float* buffer,
                  int64_t count);
  void (*subtract)(float factor, const float* x, float* w, int64_t count);
  double (*squares)(const float* x, int64_t count);
};
OptimizerLoops optimizer_loops_portable();
OptimizerLoops optimizer_loops_avx2();
OptimizerLoops optimizer_loops_avx512();

namespace {  // a copy in each file that includes this: they differ in their instructions

inline void adamw_loop(const AdamCoefficients& c, float* __restrict w, const float* __restrict g,
                       float* __restrict m, float* __restrict v, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float gradient = g[i] * c.grad_scale;
    const float first = c.beta1 * m[i] + c.one_minus_beta1 * gradient;
    const float second = c.beta2 * v[i] + c.one_minus_beta2 * gradient * gradient;
    m[i] = first;
    v[i] = second;
    w[i] = w[i] * c.decay - c.rate * first / (std::sqrt(second) * c.root_correction + c.eps);
  }
}

inline void lamb_loop(const AdamCoefficients& c, const float* __restrict w, const float* __restrict g,
                      float* __restrict m, float* __restrict v, float* __restrict out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float gradient = g[i] * c.grad_scale;
    const float first = c.beta1 * m[i] + c.one_minus_beta1 * gradient;
    const float second = c.beta2 * v[i] + c.one_minus_beta2 * gradient * gradient;
    m[i] = first;
    v[i] = second;
    out[i] = c.rate * first / (std::sqrt(second) * c.root_correction + c.eps) + c.decay * w[i];
  }
}

inline void sgd_loop(const SgdCoefficients& c, float* __restrict w, const float* __restrict g,
                     float* __restrict buffer, int64_t count) {
  if (buffer == nullptr) {
    for (int64_t i = 0; i < count; ++i) w[i] -= c.lr * (g[i] * c.grad_scale + c.weight_decay * w[i]);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    buffer[i] = c.momentum * buffer[i] + (g[i] * c.grad_scale + c.weight_decay * w[i]);
    w[i] -= c.lr * buffer[i];
  }
}

inline void rmsprop_loop(const RmsPropCoefficients& c, float* __restrict w, const float* __restrict g,
                         float* __restrict v, float* __restrict buffer, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float gradient = g[i] * c.grad_scale + c.weight_decay * w[i];
    v[i] = c.alpha * v[i] + c.one_minus_alpha * gradient * gradient;
    float step = gradient / (std::sqrt(v[i]) + c.eps);
    if (buffer != nullptr) step = buffer[i] = c.momentum * buffer[i] + step;
    w[i] -= c.lr * step;
  }
}

inline void subtract_loop(float factor, const float* __restrict x, float* __restrict w, int64_t count) {
  for (int64_t i = 0; i < count; ++i) w[i] -= factor * x[i];
}

// Eight sums side by side, whatever the vectors' width, so that the order is one.
inline double squares_loop(const float* x, int64_t count) {
  double sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int j = 0; j < 8; ++j) sums[j] += static_cast<double>(x[i + j]) * x[i + j];
  for (int j = 0; i < count; ++i, ++j) sums[j] += static_cast<double>(x[i]) * x[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

constexpr OptimizerLoops kOptimizerLoops = {adamw_loop,   lamb_loop,     sgd_loop,
                                            rmsprop_loop, subtract_loop, squares_loop};

}  // namespace

}  // namespace penstock
