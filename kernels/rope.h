// Rotary position embedding (Su et al. 2021), the "rotate half" form of Llama: in a head of size d, elements
// i and i + d/2 are a pair, turned by position * theta^(-2i/d).
//
// The angles are rounded to f32 as Transformers rounds them, so that long positions agree with the weights'
// training. Reference: tests/reference/rope_reference.h.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "kernels/device.h"
#include "kernels/tensor.h"

namespace penstock {

// Llama 3's scaling ("rope_type": "llama3" in config.json): wavelengths longer than original_context /
// low_freq_factor are stretched by `factor`, those below original_context / high_freq_factor are kept, and
// between them the two are blended.
struct Llama3RopeScaling {
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_context = 8192;
};

struct RopeParams {
  int64_t head_dim = 0;  // even
  double theta = 10000;
  int64_t positions_max = 0;  // positions 0 .. positions_max - 1 are in the table
  std::optional<Llama3RopeScaling> llama3 = std::nullopt;
};

// Cosines and sines of every position, in device memory. Immutable; outlived by its device.
class RopeTable {
 public:
  static Result<RopeTable> make(Device& device, const RopeParams& params);
  int64_t head_dim() const { return head_dim_; }
  int64_t positions_max() const { return positions_max_; }
  // [positions_max, head_dim]: head_dim / 2 cosines, then as many sines.
  const float* data() const { return buffer_.as<const float>(); }

 private:
  DeviceBuffer buffer_;
  int64_t head_dim_ = 0;
  int64_t positions_max_ = 0;
};

// In place on columns [0, heads * head_dim) of x: in a fused [rows, (q_heads + 2 * kv_heads) * head_dim]
// matrix, heads = q_heads + kv_heads turns Q and K and leaves V. positions: device pointer, x.rows of them.
// A position outside the table is a CHECK failure on a CPU: callers bound the context.
void rope(Stream& stream, Matrix<float> x, int64_t heads, const RopeTable& table, const int32_t* positions);

}  // namespace penstock
