// SwiGLU (Shazeer 2020): y[r][c] = silu(gate[r][c]) * up[r][c], silu(g) = g / (1 + exp(-g)).
//
// gate_up: [rows, 2 * ffn] f32, gate in columns [0, ffn), up in [ffn, 2 * ffn); y: [rows, ffn] f32, not
// overlapping gate_up. Relative error of exp below 2e-7. Elementwise, so independent of the batch.
// Reference: tests/reference/swiglu_reference.h.
#pragma once

#include "kernels/device.h"
#include "kernels/tensor.h"

namespace penstock {

void swiglu(Stream& stream, Matrix<const float> gate_up, Matrix<float> y);

}  // namespace penstock
