// SwiGLU on CUDA: one thread an element. Shapes and formula: swiglu.h.
#include "kernels/launch_cuda.h"
#include "kernels/ops_cuda.h"

namespace penstock {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    swiglu_kernel(const float* gate_up, int64_t stride, int64_t ffn, float* y, int64_t y_stride) {
  const int64_t column = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (column >= ffn) return;
  const float* row = gate_up + blockIdx.x * stride;
  const float gate = row[column];
  // expf overflows to infinity for gate < -88: the quotient is then 0, as it should be.
  y[blockIdx.x * y_stride + column] = gate / (1.0F + expf(-gate)) * row[ffn + column];
}

}  // namespace

CudaError swiglu_cuda(const float* gate_up, int64_t stride, int64_t rows, int64_t ffn, float* y,
                      int64_t y_stride, void* stream) {
  if (rows == 0) return nullptr;
  const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>((ffn + kThreads - 1) / kThreads));
  return PENSTOCK_LAUNCH(swiglu_kernel, grid, dim3(kThreads), 0, stream, gate_up, stride, ffn, y, y_stride);
}

}  // namespace penstock
