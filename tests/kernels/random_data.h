// Seeded inputs for the tests of kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "kernels/dtype.h"

namespace penstock {

// Roughly normal (the sum of four uniforms), standard deviation `scale`.
inline std::vector<float> random_floats(Rng& rng, int64_t count, double scale = 1) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    const double sum = rng.uniform() + rng.uniform() + rng.uniform() + rng.uniform();
    value = static_cast<float>((sum - 2) * 1.7320508 * scale);
  }
  return values;
}

// The same, exactly representable in bf16.
inline std::vector<float> random_bf16_floats(Rng& rng, int64_t count, double scale = 1) {
  std::vector<float> values = random_floats(rng, count, scale);
  for (float& value : values) value = to_float(to_bf16(value));
  return values;
}

}  // namespace penstock
