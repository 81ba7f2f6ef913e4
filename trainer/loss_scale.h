// Dynamic loss scale of fp16 training: a state machine fed with one bit a step.
//
// Every rank holds the same one and feeds it the same bit (whether ANY rank saw infinity or NaN in its
// gradients), so that all skip together.
#pragma once

#include <cstdint>

namespace penstock::trainer {

struct LossScaleConfig {
  double start = 65536;            // 2^16
  int64_t growth_interval = 2000;  // clean steps in a row that double the scale
  int hysteresis = 2;              // bad steps that halve it; clean steps between them do not count against
};

class LossScale {
 public:
  explicit LossScale(const LossScaleConfig& config)
      : config_(config), scale_(config.start), bad_left_(config.hysteresis) {}

  double scale() const { return scale_; }
  // Ends a step; true: apply it, false: skip the optimizer and the schedule. The scale never falls below 1.
  bool step(bool overflow);

  // What a checkpoint keeps.
  struct State {
    double scale = 0;
    int64_t clean_steps = 0;
    int bad_left = 0;
  };
  State state() const { return {scale_, clean_steps_, bad_left_}; }
  void restore(const State& state);

 private:
  LossScaleConfig config_;
  double scale_;
  int64_t clean_steps_ = 0;
  int bad_left_;
};

}  // namespace penstock::trainer
