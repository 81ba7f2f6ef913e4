// Embedding look-up: y[r] = table[ids[r]], widened to f32. Exact.
//
// table: [vocab, cols] bf16 or f32, row-major; ids: device pointer, y.rows of them; y: [rows, cols] f32.
// On a CPU an id outside [0, vocab) is a CHECK failure: callers validate ids where they enter the system.
#pragma once

#include "base/ids.h"
#include "kernels/device.h"
#include "kernels/tensor.h"

namespace penstock {

void embedding(Stream& stream, WeightMatrix table, const TokenId* ids, Matrix<float> y);

}  // namespace penstock
