// Sums and copies of whole matrices, for what no other op folds in.
#pragma once

#include "kernels/device.h"
#include "kernels/tensor.h"

namespace penstock {

// y[r][c] += x[r][c]; both [rows, cols] f32.
void add(Stream& stream, Matrix<const float> x, Matrix<float> y);

}  // namespace penstock
