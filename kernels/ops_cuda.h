// Host launchers of the CUDA kernels, as the plugin's table lists them (cuda_plugin.h says what they take).
#pragma once

#include "kernels/cuda_plugin.h"

namespace penstock {

CudaError rmsnorm_cuda(const float* x, int64_t x_stride, const void* weight, int weight_is_bf16, float eps,
                       int64_t rows, int64_t cols, float* y, int64_t y_stride, void* stream);
CudaError swiglu_cuda(const float* gate_up, int64_t stride, int64_t rows, int64_t ffn, float* y,
                      int64_t y_stride, void* stream);
CudaError paged_attention_decode_cuda(const CudaPagedDecodeArgs* args, void* stream);

}  // namespace penstock
