// One step of each optimizer for one parameter, in double precision, from the formulas of optimizer_step.h.
#pragma once

#include <cmath>

namespace penstock::reference {

struct OptimizerState {
  double w = 0, moment1 = 0, moment2 = 0;
};

inline void adamw(OptimizerState& s, double g, double lr, double beta1, double beta2, double eps, double wd,
                  int step) {
  s.moment1 = beta1 * s.moment1 + (1 - beta1) * g;
  s.moment2 = beta2 * s.moment2 + (1 - beta2) * g * g;
  const double m = s.moment1 / (1 - std::pow(beta1, step)), v = s.moment2 / (1 - std::pow(beta2, step));
  s.w -= lr * wd * s.w;
  s.w -= lr * m / (std::sqrt(v) + eps);
}

inline double lamb_direction(OptimizerState& s, double g, double beta1, double beta2, double eps, double wd,
                             int step) {
  s.moment1 = beta1 * s.moment1 + (1 - beta1) * g;
  s.moment2 = beta2 * s.moment2 + (1 - beta2) * g * g;
  const double m = s.moment1 / (1 - std::pow(beta1, step)), v = s.moment2 / (1 - std::pow(beta2, step));
  return m / (std::sqrt(v) + eps) + wd * s.w;
}

inline void sgd(OptimizerState& s, double g, double lr, double momentum, double wd) {
  s.moment1 = momentum * s.moment1 + g + wd * s.w;
  s.w -= lr * s.moment1;
}

inline void rmsprop(OptimizerState& s, double g, double lr, double alpha, double eps, double momentum,
                    double wd) {
  g += wd * s.w;
  s.moment1 = alpha * s.moment1 + (1 - alpha) * g * g;
  s.moment2 = momentum * s.moment2 + g / (std::sqrt(s.moment1) + eps);
  s.w -= lr * s.moment2;
}

}  // namespace penstock::reference
