#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "kernels/rope.h"

namespace penstock {
namespace {

constexpr int64_t kPositionsAtOnce = 4096;

// Transformers' llama3 rule; wavelengths are compared in double, the result is rounded to f32 by the caller.
double scale_frequency(double frequency, const Llama3RopeScaling& scaling) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const double context = static_cast<double>(scaling.original_context);
  if (wavelength < context / scaling.high_freq_factor) return frequency;
  if (wavelength > context / scaling.low_freq_factor) return frequency / scaling.factor;
  const double blend =
      (context / wavelength - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - blend) * frequency / scaling.factor + blend * frequency;
}

Status check_params(const RopeParams& params) {
  const auto invalid = [](const std::string& what) { return fail(Error::kInvalidArgument, "rope: " + what); };
  if (params.head_dim < 2 || params.head_dim % 2 != 0) {
    return invalid("head_dim must be even and positive, not " + std::to_string(params.head_dim));
  }
  if (params.positions_max < 1) return invalid("positions_max must be positive");
  if (!(params.theta > 0) || !std::isfinite(params.theta)) return invalid("theta must be positive");
  if (!params.llama3) return {};
  const Llama3RopeScaling& scaling = *params.llama3;
  if (!(scaling.factor > 0) || !(scaling.low_freq_factor > 0) || scaling.original_context < 1 ||
      !(scaling.high_freq_factor > scaling.low_freq_factor)) {
    return invalid("llama3 scaling needs factor > 0 and high_freq_factor > low_freq_factor > 0");
  }
  return {};
}

void fill_row(float position, const std::vector<float>& frequencies, float* row) {
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const float angle = position * frequencies[i];  // rounded to f32 on purpose (rope.h)
    row[i] = static_cast<float>(std::cos(static_cast<double>(angle)));
    row[frequencies.size() + i] = static_cast<float>(std::sin(static_cast<double>(angle)));
  }
}

}  // namespace

Result<RopeTable> RopeTable::make(Device& device, const RopeParams& params) {
  RETURN_IF_ERROR(check_params(params));
  const int64_t half = params.head_dim / 2, bytes = params.positions_max * params.head_dim * 4;
  std::vector<float> frequencies(static_cast<size_t>(half));
  for (int64_t i = 0; i < half; ++i) {
    const double exponent = static_cast<float>(2 * i) / static_cast<float>(params.head_dim);
    const float inverse = 1.0F / static_cast<float>(std::pow(params.theta, exponent));
    frequencies[i] = params.llama3 ? static_cast<float>(scale_frequency(inverse, *params.llama3)) : inverse;
  }
  // Before any host memory: positions_max comes from a file, and this is what says that it is too large.
  auto buffer = device.allocate(bytes).with_context("rotary table of " +
                                                    std::to_string(params.positions_max) + " positions");
  if (!buffer.ok()) return buffer.failure();
  ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream, device.make_stream({}));
  std::vector<float> host(
      static_cast<size_t>(std::min(kPositionsAtOnce, params.positions_max) * params.head_dim));
  for (int64_t first = 0; first < params.positions_max; first += kPositionsAtOnce) {
    const int64_t count = std::min(kPositionsAtOnce, params.positions_max - first);
    for (int64_t row = 0; row < count; ++row)
      fill_row(static_cast<float>(first + row), frequencies, host.data() + row * params.head_dim);
    stream->copy_async(buffer->as<float>() + first * params.head_dim, host.data(),
                       count * params.head_dim * 4, CopyKind::kHostToDevice);
    RETURN_IF_ERROR(stream->synchronize());
  }
  RopeTable table;
  table.buffer_ = std::move(*buffer);
  table.head_dim_ = params.head_dim;
  table.positions_max_ = params.positions_max;
  return table;
}

}  // namespace penstock
