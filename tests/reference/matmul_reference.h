// y = x * W^T in double precision; x: [m, k], w: [n, k], both row-major and dense.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace penstock::reference {

inline std::vector<double> matmul(std::span<const float> x, std::span<const float> w, int64_t m, int64_t n,
                                  int64_t k) {
  std::vector<double> y(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += static_cast<double>(x[i * k + p]) * w[j * k + p];
      y[i * n + j] = sum;
    }
  }
  return y;
}

}  // namespace penstock::reference
