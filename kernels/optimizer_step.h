// One optimizer step over a run of parameters: w changes, and the moments with it.
//
// All arrays are host f32 of `count` elements, not overlapping; elements are independent, so a tensor may be
// cut anywhere (ZeRO shards, threads) without changing a bit. Gradients are multiplied by grad_scale on the
// way in: clipping, loss scale and the number of labels in one factor. Every instruction set computes the
// same bits. Reference: tests/reference/optimizer_reference.h.
#pragma once

#include <cstdint>

#include "kernels/device.h"

namespace penstock {

// Where a step reads and writes. moment1, moment2: what the rule keeps, zero before the first step; null
// where the rule keeps less.
struct OptimizerArrays {
  float* weights = nullptr;
  const float* gradients = nullptr;
  float* moment1 = nullptr;
  float* moment2 = nullptr;
  int64_t count = 0;
};

// Decoupled weight decay: w -= lr wd w, then w -= lr m̂ / (sqrt(v̂) + eps); m = beta1 m + (1 - beta1) g, v
// likewise of g²; m̂ = m / (1 - beta1^step), v̂ likewise; step counts applied steps from 1. Loshchilov, Hutter
// (ICLR'19), as torch.optim.AdamW.
struct AdamWStep {
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  int64_t step = 1;
  float grad_scale = 1;
};
void adamw_step(Stream& stream, const AdamWStep& step, const OptimizerArrays& arrays);

// g += wd w; buffer (moment1) = momentum buffer + g; w -= lr buffer. With momentum 0: w -= lr g, and moment1
// may be null. As torch.optim.SGD without dampening.
struct SgdStep {
  double lr = 0, momentum = 0, weight_decay = 0;
  float grad_scale = 1;
};
void sgd_step(Stream& stream, const SgdStep& step, const OptimizerArrays& arrays);

// g += wd w; v (moment1) = alpha v + (1 - alpha) g²; d = g / (sqrt(v) + eps); with momentum: buffer (moment2)
// = momentum buffer + d, w -= lr buffer; without: w -= lr d. As torch.optim.RMSprop, not centered.
struct RmsPropStep {
  double lr = 0, alpha = 0.99, eps = 1e-8, momentum = 0, weight_decay = 0;
  float grad_scale = 1;
};
void rmsprop_step(Stream& stream, const RmsPropStep& step, const OptimizerArrays& arrays);

// LAMB (You et al., arXiv:1904.00962, algorithm 2) in two halves, because the trust ratio needs norms over
// the whole tensor wherever its shards lie. First half: moments, then direction = m̂ / (sqrt(v̂) + eps) + wd w
// into `direction` (count elements), and the sums of squares of w and of the direction in double precision.
struct LambNorms {
  double weights = 0, direction = 0;  // sums of squares
};
LambNorms lamb_direction(Stream& stream, const AdamWStep& step, const OptimizerArrays& arrays,
                         float* direction);
// |w| / |direction| of summed norms, at most ratio_max; 1 where either is 0.
double lamb_trust_ratio(const LambNorms& norms, double ratio_max = 10);
// Second half: w -= lr ratio direction.
void lamb_apply(Stream& stream, double lr_times_ratio, const float* direction, float* weights, int64_t count);

// Sum of squares in double precision, in a fixed order that depends on `count` only; for gradient norms.
double sum_of_squares(Stream& stream, const float* values, int64_t count);

}  // namespace penstock
