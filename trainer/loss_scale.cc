#include "trainer/loss_scale.h"

#include <algorithm>

namespace penstock::trainer {

bool LossScale::step(bool overflow) {
  if (overflow) {
    clean_steps_ = 0;
    if (--bad_left_ <= 0) {
      scale_ = std::max(1.0, scale_ / 2);
      bad_left_ = config_.hysteresis;
    }
    return false;
  }
  if (++clean_steps_ >= config_.growth_interval) {
    clean_steps_ = 0;
    scale_ *= 2;
    bad_left_ = config_.hysteresis;
  }
  return true;
}

void LossScale::restore(const State& state) {
  scale_ = state.scale;
  clean_steps_ = state.clean_steps;
  bad_left_ = state.bad_left;
}

}  // namespace penstock::trainer
