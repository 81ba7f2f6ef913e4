#include "kernels/optimizer_step.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "kernels/optimizer_loops.h"
#include "kernels/row_parallel_cpu.h"

namespace penstock {
namespace {

constexpr int64_t kChunk = 1 << 14;  // elements; sums are formed chunk by chunk, so it is part of the result

OptimizerLoops loops_of(Isa isa) {
  if (isa == Isa::kPortable) return optimizer_loops_portable();
  return isa == Isa::kAvx2 ? optimizer_loops_avx2() : optimizer_loops_avx512();
}

// Calls fn(first, count) for every chunk of `count` elements, on the stream's threads.
template <typename F>
void for_each_chunk(Stream& stream, int64_t count, F&& fn) {
  require_cpu(stream, "an optimizer step");
  stream.threads().parallel_for((count + kChunk - 1) / kChunk, [&](int64_t chunk) {
    fn(chunk * kChunk, std::min(kChunk, count - chunk * kChunk));
  });
}

float* at(float* array, int64_t first) { return array == nullptr ? nullptr : array + first; }

AdamCoefficients adam_coefficients(const AdamWStep& s, double rate, double decay) {
  CHECK_GE(s.step, 1);
  const auto steps = static_cast<double>(s.step);
  return {.grad_scale = s.grad_scale,
          .beta1 = static_cast<float>(s.beta1),
          .one_minus_beta1 = static_cast<float>(1 - s.beta1),
          .beta2 = static_cast<float>(s.beta2),
          .one_minus_beta2 = static_cast<float>(1 - s.beta2),
          .rate = static_cast<float>(rate / (1 - std::pow(s.beta1, steps))),
          .root_correction = static_cast<float>(1 / std::sqrt(1 - std::pow(s.beta2, steps))),
          .eps = static_cast<float>(s.eps),
          .decay = static_cast<float>(decay)};
}

double total(const std::vector<double>& parts) {
  double sum = 0;
  for (const double part : parts) sum += part;
  return sum;
}

}  // namespace

void adamw_step(Stream& stream, const AdamWStep& step, const OptimizerArrays& a) {
  CHECK(a.count == 0 || (a.moment1 != nullptr && a.moment2 != nullptr));
  const OptimizerLoops loops = loops_of(stream.isa());
  const AdamCoefficients c = adam_coefficients(step, step.lr, 1 - step.lr * step.weight_decay);
  for_each_chunk(stream, a.count, [&](int64_t first, int64_t count) {
    loops.adamw(c, a.weights + first, a.gradients + first, a.moment1 + first, a.moment2 + first, count);
  });
}

void sgd_step(Stream& stream, const SgdStep& s, const OptimizerArrays& a) {
  CHECK(a.count == 0 || s.momentum == 0 || a.moment1 != nullptr);
  const OptimizerLoops loops = loops_of(stream.isa());
  const SgdCoefficients c{s.grad_scale, static_cast<float>(s.lr), static_cast<float>(s.momentum),
                          static_cast<float>(s.weight_decay)};
  float* const buffer = s.momentum == 0 ? nullptr : a.moment1;
  for_each_chunk(stream, a.count, [&](int64_t first, int64_t count) {
    loops.sgd(c, a.weights + first, a.gradients + first, at(buffer, first), count);
  });
}

void rmsprop_step(Stream& stream, const RmsPropStep& s, const OptimizerArrays& a) {
  CHECK(a.count == 0 || (a.moment1 != nullptr && (s.momentum == 0 || a.moment2 != nullptr)));
  const OptimizerLoops loops = loops_of(stream.isa());
  const RmsPropCoefficients c{s.grad_scale,
                              static_cast<float>(s.lr),
                              static_cast<float>(s.alpha),
                              static_cast<float>(1 - s.alpha),
                              static_cast<float>(s.eps),
                              static_cast<float>(s.momentum),
                              static_cast<float>(s.weight_decay)};
  float* const buffer = s.momentum == 0 ? nullptr : a.moment2;
  for_each_chunk(stream, a.count, [&](int64_t first, int64_t count) {
    loops.rmsprop(c, a.weights + first, a.gradients + first, a.moment1 + first, at(buffer, first), count);
  });
}

LambNorms lamb_direction(Stream& stream, const AdamWStep& step, const OptimizerArrays& a, float* direction) {
  CHECK(a.count == 0 || (a.moment1 != nullptr && a.moment2 != nullptr));
  const OptimizerLoops loops = loops_of(stream.isa());
  const AdamCoefficients c = adam_coefficients(step, 1, step.weight_decay);
  for_each_chunk(stream, a.count, [&](int64_t first, int64_t count) {
    loops.lamb(c, a.weights + first, a.gradients + first, a.moment1 + first, a.moment2 + first,
               direction + first, count);
  });
  return {sum_of_squares(stream, a.weights, a.count), sum_of_squares(stream, direction, a.count)};
}

double lamb_trust_ratio(const LambNorms& norms, double ratio_max) {
  if (!(norms.weights > 0) || !(norms.direction > 0)) return 1;
  return std::min(ratio_max, std::sqrt(norms.weights / norms.direction));
}

void lamb_apply(Stream& stream, double lr_times_ratio, const float* direction, float* weights,
                int64_t count) {
  const OptimizerLoops loops = loops_of(stream.isa());
  for_each_chunk(stream, count, [&](int64_t first, int64_t n) {
    loops.subtract(static_cast<float>(lr_times_ratio), direction + first, weights + first, n);
  });
}

double sum_of_squares(Stream& stream, const float* values, int64_t count) {
  const OptimizerLoops loops = loops_of(stream.isa());
  std::vector<double> parts(static_cast<size_t>((count + kChunk - 1) / kChunk));
  for_each_chunk(stream, count, [&](int64_t first, int64_t n) {
    parts[static_cast<size_t>(first / kChunk)] = loops.squares(values + first, n);
  });
  return total(parts);
}

}  // namespace penstock
