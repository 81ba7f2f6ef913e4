// C = op(A) * op(B) in double precision; matrices as stored, row-major and dense.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace penstock::reference {

// a: [m, k], or [k, m] when transposed; b: [k, n], or [n, k] when transposed.
inline std::vector<double> gemm(std::span<const float> a, bool a_transposed, std::span<const float> b,
                                bool b_transposed, int64_t m, int64_t n, int64_t k) {
  std::vector<double> c(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) {
        sum += static_cast<double>(a[a_transposed ? p * m + i : i * k + p]) *
               b[b_transposed ? j * k + p : p * n + j];
      }
      c[i * n + j] = sum;
    }
  }
  return c;
}

}  // namespace penstock::reference
