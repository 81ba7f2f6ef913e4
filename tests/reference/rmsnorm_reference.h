// RMSNorm in double precision, one row: y[c] = x[c] * w[c] / sqrt(mean(x^2) + eps).
#pragma once

#include <cmath>
#include <span>
#include <vector>

namespace penstock::reference {

inline std::vector<double> rmsnorm_row(std::span<const float> x, std::span<const float> weight, double eps) {
  double sum = 0;
  for (const float value : x) sum += static_cast<double>(value) * value;
  const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + eps);
  std::vector<double> y(x.size());
  for (size_t c = 0; c < x.size(); ++c) y[c] = x[c] * scale * weight[c];
  return y;
}

}  // namespace penstock::reference
