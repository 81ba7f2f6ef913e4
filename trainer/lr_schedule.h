// Learning rate as a pure function of the step.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace penstock::trainer {

enum class LrShape : uint8_t { kConstant, kLinear, kCosine, kInverseSqrt, kWsd };
enum class DecayShape : uint8_t {
  kLinear,
  kSqrt,
  kCosine
};  // of WSD's last stretch: 1 - r, 1 - sqrt r, cosine

struct LrConfig {
  LrShape shape = LrShape::kCosine;
  double peak = 0;
  double lowest = 0;         // where decay ends; a floor for the inverse square root
  int64_t warmup_steps = 0;  // step t of W: peak (t + 1) / W
  int64_t total_steps = 0;   // linear, cosine, WSD: steps beyond it stay at `lowest`
  int64_t decay_steps = 0;   // WSD: the last so many steps anneal
  DecayShape decay = DecayShape::kLinear;
};

// kInvalidArgument names the key of [schedule] that cannot be: negative rates, a warm-up longer than the run.
Status validate(const LrConfig& config);

// Of step >= 0, the first is 0. After warm-up: linear and cosine fall from the peak at step W towards
// `lowest`, which step total_steps would reach; the inverse square root is peak sqrt(W / (t + 1)), W at least
// 1; WSD is constant until total_steps - decay_steps and anneals from there.
double learning_rate(const LrConfig& config, int64_t step);

}  // namespace penstock::trainer
