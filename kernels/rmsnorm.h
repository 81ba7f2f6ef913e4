// RMSNorm (Zhang, Sennrich 2019): y[r][c] = x[r][c] * w[c] / sqrt(mean over c of x[r][c]^2 + eps).
//
// x, y: [rows, cols] f32; w: [cols] f32 or bf16. y may be x. The sum runs in f32 in an order that depends
// only on cols, so a row's result is the same in any batch, bit for bit. Reference:
// tests/reference/rmsnorm_reference.h.
#pragma once

#include "kernels/device.h"
#include "kernels/tensor.h"

namespace penstock {

void rmsnorm(Stream& stream, Matrix<const float> x, WeightVector weight, float eps, Matrix<float> y);

}  // namespace penstock
