// The inner loops of the memory-light CPU ops, one table of functions an instruction set.
//
// Each function works on one row and knows nothing of batches or threads: the order of its arithmetic depends
// on the row's length alone. Wider instructions than the build's baseline stay behind these pointers.
#pragma once

#include <cstdint>

#include "kernels/dtype.h"
#include "kernels/isa.h"

namespace penstock {

struct RowOps {
  // y = x * w / sqrt(mean(x^2) + eps); y may be x.
  void (*rmsnorm_f32)(const float* x, const float* weight, float eps, int64_t n, float* y);
  void (*rmsnorm_bf16)(const float* x, const Bf16* weight, float eps, int64_t n, float* y);
  // y = silu(gate) * up
  void (*swiglu)(const float* gate, const float* up, int64_t n, float* y);
  // One head in place; cosines: half of them, then half sines.
  void (*rope_head)(float* x, const float* cosines, int64_t half);
  void (*widen)(const Bf16* x, int64_t n, float* y);
  void (*add)(const float* x, int64_t n, float* y);  // y += x

  // For sampling. kBlock elements share one maximum, kChunk one sum; the last of each may be short.
  // Returns false when x holds NaN or +inf.
  bool (*block_maxima)(const float* x, int64_t n, float* maxima);
  // sums[c] = sum over chunk c of exp((x - highest) * inverse_temperature)
  void (*exp_sums)(const float* x, int64_t n, float highest, float inverse_temperature, float* sums);
  // y = exp((x - highest) * inverse_temperature)
  void (*exp_weights)(const float* x, int64_t n, float highest, float inverse_temperature, float* y);
};

inline constexpr int64_t kSamplingBlock = 64;
inline constexpr int64_t kSamplingChunk = 256;

// The widest table that `isa` includes.
const RowOps& row_ops(Isa isa);

extern const RowOps kRowOpsPortable;
extern const RowOps kRowOpsAvx2;
extern const RowOps kRowOpsAvx512;

}  // namespace penstock
