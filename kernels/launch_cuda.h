// What a .cu file includes instead of CUDA's own headers, so that both nvcc and, through the emulator, g++
// compile it.
#pragma once

#include "kernels/cuda_plugin.h"

#ifdef __CUDACC__

#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace penstock {
inline CudaError cuda_error(cudaError_t error) {
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}
}  // namespace penstock

// Launches kernel(args...); a CudaError. `kernel` is a function or a pointer to one.
#define PENSTOCK_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                               \
  (kernel<<<(grid), (block), static_cast<size_t>(shared_bytes), static_cast<cudaStream_t>(stream)>>>( \
       __VA_ARGS__),                                                                                  \
   ::penstock::cuda_error(cudaGetLastError()))

// The block's dynamic shared memory, aligned to 16 bytes.
extern __shared__ __align__(16) unsigned char penstock_shared_bytes[];
#define PENSTOCK_SHARED(type) reinterpret_cast<type*>(penstock_shared_bytes)

#else

#include "kernels/emulator/emulator.h"

#define PENSTOCK_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
  (static_cast<void>(stream),                                           \
   ::penstock::emulator::launch(#kernel, kernel, (grid), (block), (shared_bytes), __VA_ARGS__))
#define PENSTOCK_SHARED(type) static_cast<type*>(::penstock::emulator::shared_memory())

#endif

namespace penstock {

inline constexpr unsigned kFullWarp = 0xFFFFFFFFU;

// All lanes of a warp get the sum, or the maximum, in one fixed order.
__device__ inline float warp_sum(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(kFullWarp, x, step);
  return x;
}
__device__ inline float warp_max(float x) {
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(kFullWarp, x, step));
  return x;
}

__device__ inline float widen(float x) { return x; }
__device__ inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }

}  // namespace penstock
