#include "trainer/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "base/check.h"

namespace penstock::trainer {
namespace {

Failure wrong(const std::string& key, const std::string& what) {
  return fail(Error::kInvalidArgument, "schedule." + key + ": " + what);
}

double cosine(double r) { return (1 + std::cos(std::numbers::pi * r)) / 2; }

// How much of the way from `lowest` to the peak is left, r of the way through the decay.
double left(DecayShape shape, double r) {
  switch (shape) {
    case DecayShape::kLinear:
      return 1 - r;
    case DecayShape::kSqrt:
      return 1 - std::sqrt(r);
    case DecayShape::kCosine:
      return cosine(r);
  }
  return 0;
}

double between(const LrConfig& c, double share) { return c.lowest + (c.peak - c.lowest) * share; }

double progress(int64_t step, int64_t first, int64_t steps) {
  if (steps <= 0) return 1;
  return std::clamp(static_cast<double>(step - first) / static_cast<double>(steps), 0.0, 1.0);
}

}  // namespace

Status validate(const LrConfig& c) {
  if (!(c.peak > 0) || !std::isfinite(c.peak)) return wrong("peak", "needs a positive number");
  if (!(c.lowest >= 0 && c.lowest <= c.peak)) return wrong("lowest", "needs a number from 0 to the peak");
  if (c.warmup_steps < 0) return wrong("warmup_steps", "needs 0 or more");
  if (c.shape == LrShape::kConstant || c.shape == LrShape::kInverseSqrt) return {};
  if (c.total_steps < 1) return wrong("total_steps", "needs 1 or more for a schedule that decays");
  if (c.warmup_steps > c.total_steps)
    return wrong("warmup_steps", std::to_string(c.warmup_steps) + " is more than the " +
                                     std::to_string(c.total_steps) + " steps of the run");
  if (c.shape == LrShape::kWsd && (c.decay_steps < 0 || c.decay_steps > c.total_steps - c.warmup_steps))
    return wrong("decay_steps", "needs 0 to " + std::to_string(c.total_steps - c.warmup_steps) +
                                    ", what the warm-up leaves of the run");
  return {};
}

double learning_rate(const LrConfig& c, int64_t step) {
  CHECK(step >= 0);
  if (step < c.warmup_steps)
    return c.peak * static_cast<double>(step + 1) / static_cast<double>(c.warmup_steps);
  const double r = progress(step, c.warmup_steps, c.total_steps - c.warmup_steps);
  switch (c.shape) {
    case LrShape::kConstant:
      return c.peak;
    case LrShape::kLinear:
      return between(c, 1 - r);
    case LrShape::kCosine:
      return between(c, cosine(r));
    case LrShape::kInverseSqrt: {
      const auto warmup = static_cast<double>(std::max<int64_t>(c.warmup_steps, 1));
      return std::max(c.lowest, c.peak * std::sqrt(warmup / static_cast<double>(step + 1)));
    }
    case LrShape::kWsd: {
      const int64_t start = c.total_steps - c.decay_steps;
      return step < start ? c.peak : between(c, left(c.decay, progress(step, start, c.decay_steps)));
    }
  }
  return 0;
}

}  // namespace penstock::trainer
