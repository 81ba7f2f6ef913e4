// The table of functions that libpenstock_cuda.so offers: the one border between the host program, which
// knows no CUDA header, and the CUDA runtime.
//
// C types only. Every function that can fail returns a string: nullptr for success, else CUDA's message,
// which lives as long as the plugin. `stream` is a cudaStream_t, `event` a cudaEvent_t. Launches are
// asynchronous.
#pragma once

#include <cstdint>

namespace penstock {

inline constexpr uint32_t kCudaPluginAbi = 1;
inline constexpr const char* kCudaPluginSymbol = "penstock_cuda_plugin";

using CudaError = const char*;

struct CudaPagedDecodeArgs {
  const float* q;  // [sequences, q_heads * head_dim], row stride q_stride
  int64_t q_stride;
  float* out;  // like q, row stride out_stride
  int64_t out_stride;
  const void* k;  // one layer of the pool, kv_layer.h's layout
  const void* v;
  const uint32_t* block_tables;  // [sequences, table_stride], device memory
  const int32_t* lengths;        // [sequences] tokens to attend to, the query's own included; device memory
  int64_t table_stride;
  int32_t sequences, q_heads, kv_heads, head_dim, block_tokens;
  int32_t kv_is_bf16;  // else f32
  float scale;
};

struct CudaPlugin {
  uint32_t abi;

  CudaError (*device_count)(int* count);
  CudaError (*device_name)(int ordinal, char* name, int64_t name_bytes);
  CudaError (*use_device)(int ordinal);  // for the calling thread

  CudaError (*allocate)(int64_t bytes, void** data);
  CudaError (*release)(void* data);
  CudaError (*allocate_pinned)(int64_t bytes, void** data);
  CudaError (*release_pinned)(void* data);

  CudaError (*stream_create)(void** stream);
  CudaError (*stream_destroy)(void* stream);
  CudaError (*stream_synchronize)(void* stream);
  CudaError (*copy_async)(void* to, const void* from, int64_t bytes, void* stream);  // direction by address
  CudaError (*zero_async)(void* to, int64_t bytes, void* stream);

  CudaError (*event_create)(void** event);
  CudaError (*event_destroy)(void* event);
  CudaError (*event_record)(void* event, void* stream);
  CudaError (*event_wait)(void* event, void* stream);
  CudaError (*event_synchronize)(void* event);
  CudaError (*event_done)(void* event, int* done);

  CudaError (*rmsnorm)(const float* x, int64_t x_stride, const void* weight, int weight_is_bf16, float eps,
                       int64_t rows, int64_t cols, float* y, int64_t y_stride, void* stream);
  CudaError (*swiglu)(const float* gate_up, int64_t stride, int64_t rows, int64_t ffn, float* y,
                      int64_t y_stride, void* stream);
  CudaError (*paged_attention_decode)(const CudaPagedDecodeArgs* args, void* stream);
};

}  // namespace penstock
