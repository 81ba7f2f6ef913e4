#include "kernels/matmul_amx.h"

namespace penstock {
namespace {

void run_panels(const AmxTask& task) {
  TileStandIn tiles;
  amx_panels(tiles, task);
}

void round_rows(const float* x, int64_t x_stride, int64_t rows, int64_t k, int64_t padded_k, uint16_t* out) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < padded_k; ++i) {
      out[r * padded_k + i] = i < k ? to_bf16(x[r * x_stride + i]).bits : uint16_t{0};
    }
  }
}

}  // namespace

AmxKernels amx_stand_in_kernels() { return {round_rows, run_panels}; }

}  // namespace penstock
