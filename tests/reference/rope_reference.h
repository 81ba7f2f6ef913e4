// Rotary embedding in double precision, with the frequencies and the angle rounded to f32 as Transformers
// does.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>
#include <span>
#include <vector>

namespace penstock::reference {

struct Llama3Scaling {
  double factor, low_freq_factor, high_freq_factor, original_context;
};

inline float rope_frequency(int64_t pair, int64_t head_dim, double theta,
                            std::optional<Llama3Scaling> llama3) {
  const float power = static_cast<float>(std::pow(theta, static_cast<float>(2 * pair) / float(head_dim)));
  const float base = 1.0F / power;
  if (!llama3) return base;
  const double wavelength = 2 * std::numbers::pi / base;
  const double low = llama3->original_context / llama3->low_freq_factor;
  const double high = llama3->original_context / llama3->high_freq_factor;
  if (wavelength < high) return base;
  if (wavelength > low) return static_cast<float>(base / llama3->factor);
  const double smooth = (llama3->original_context / wavelength - llama3->low_freq_factor) /
                        (llama3->high_freq_factor - llama3->low_freq_factor);
  return static_cast<float>((1 - smooth) * base / llama3->factor + smooth * base);
}

// One head of one row, rotate-half.
inline std::vector<double> rope_head(std::span<const float> x, int64_t position, double theta,
                                     std::optional<Llama3Scaling> llama3 = std::nullopt) {
  const int64_t d = static_cast<int64_t>(x.size()), half = d / 2;
  std::vector<double> y(x.size());
  for (int64_t i = 0; i < half; ++i) {
    const float angle = static_cast<float>(position) * rope_frequency(i, d, theta, llama3);
    const double c = std::cos(double{angle}), s = std::sin(double{angle});
    y[i] = x[i] * c - x[i + half] * s;
    y[i + half] = x[i + half] * c + x[i] * s;
  }
  return y;
}

}  // namespace penstock::reference
