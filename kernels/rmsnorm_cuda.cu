// RMSNorm on CUDA: one block a row, two passes over it (the second from L1 or L2).
//
// Shapes, dtypes and formula: rmsnorm.h. The sum's order depends on cols alone: thread t adds columns t,
// t + 256, ..., then warps by shuffles, then the warps' sums in order.
#include "kernels/launch_cuda.h"
#include "kernels/ops_cuda.h"

namespace penstock {
namespace {

constexpr int kThreads = 256;

template <typename Weight>
__global__ void __launch_bounds__(kThreads)
    rmsnorm_kernel(const float* x, int64_t x_stride, const Weight* weight, float eps, int64_t cols, float* y,
                   int64_t y_stride) {
  float* warp_sums = PENSTOCK_SHARED(float);
  const float* row = x + blockIdx.x * x_stride;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < cols; i += kThreads) sum += row[i] * row[i];
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int warp = 0; warp < kThreads / 32; ++warp) sum += warp_sums[warp];
  const float scale = 1.0F / sqrtf(sum / static_cast<float>(cols) + eps);
  float* out = y + blockIdx.x * y_stride;
  for (int64_t i = threadIdx.x; i < cols; i += kThreads) out[i] = row[i] * scale * widen(weight[i]);
}

}  // namespace

CudaError rmsnorm_cuda(const float* x, int64_t x_stride, const void* weight, int weight_is_bf16, float eps,
                       int64_t rows, int64_t cols, float* y, int64_t y_stride, void* stream) {
  if (rows == 0) return nullptr;
  const dim3 grid(static_cast<unsigned>(rows)), block(kThreads);
  constexpr int64_t kSharedBytes = kThreads / 32 * sizeof(float);
  if (weight_is_bf16 != 0) {
    return PENSTOCK_LAUNCH(rmsnorm_kernel<__nv_bfloat16>, grid, block, kSharedBytes, stream, x, x_stride,
                           static_cast<const __nv_bfloat16*>(weight), eps, cols, y, y_stride);
  }
  return PENSTOCK_LAUNCH(rmsnorm_kernel<float>, grid, block, kSharedBytes, stream, x, x_stride,
                         static_cast<const float*>(weight), eps, cols, y, y_stride);
}

}  // namespace penstock
