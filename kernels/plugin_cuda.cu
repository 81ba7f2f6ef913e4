// libpenstock_cuda.so: the CUDA runtime behind the table of cuda_plugin.h. It links the static runtime and
// never libcuda, so that it loads on machines without a driver and can say so.
#include <cstdio>

#include "kernels/launch_cuda.h"
#include "kernels/ops_cuda.h"

namespace penstock {
namespace {

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(void* event) { return static_cast<cudaEvent_t>(event); }

CudaError device_count(int* count) {
  *count = 0;  // the call below leaves it unwritten when there is no driver
  return cuda_error(cudaGetDeviceCount(count));
}

CudaError device_name(int ordinal, char* name, int64_t name_bytes) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, ordinal);
  if (error != cudaSuccess) return cuda_error(error);
  std::snprintf(name, static_cast<size_t>(name_bytes), "%s (sm_%d%d)", properties.name, properties.major,
                properties.minor);
  return nullptr;
}

CudaError use_device(int ordinal) { return cuda_error(cudaSetDevice(ordinal)); }

CudaError allocate(int64_t bytes, void** data) {
  return cuda_error(cudaMalloc(data, static_cast<size_t>(bytes)));
}
CudaError release(void* data) { return cuda_error(cudaFree(data)); }
CudaError allocate_pinned(int64_t bytes, void** data) {
  return cuda_error(cudaHostAlloc(data, static_cast<size_t>(bytes), cudaHostAllocPortable));
}
CudaError release_pinned(void* data) { return cuda_error(cudaFreeHost(data)); }

CudaError stream_create(void** stream) {
  cudaStream_t created = nullptr;
  const cudaError_t error = cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking);
  *stream = created;
  return cuda_error(error);
}
CudaError stream_destroy(void* stream) { return cuda_error(cudaStreamDestroy(stream_of(stream))); }
CudaError stream_synchronize(void* stream) { return cuda_error(cudaStreamSynchronize(stream_of(stream))); }
CudaError copy_async(void* to, const void* from, int64_t bytes, void* stream) {
  return cuda_error(
      cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, stream_of(stream)));
}
CudaError zero_async(void* to, int64_t bytes, void* stream) {
  return cuda_error(cudaMemsetAsync(to, 0, static_cast<size_t>(bytes), stream_of(stream)));
}

CudaError event_create(void** event) {
  cudaEvent_t created = nullptr;
  const cudaError_t error = cudaEventCreateWithFlags(&created, cudaEventDisableTiming);
  *event = created;
  return cuda_error(error);
}
CudaError event_destroy(void* event) { return cuda_error(cudaEventDestroy(event_of(event))); }
CudaError event_record(void* event, void* stream) {
  return cuda_error(cudaEventRecord(event_of(event), stream_of(stream)));
}
CudaError event_wait(void* event, void* stream) {
  return cuda_error(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0));
}
CudaError event_synchronize(void* event) { return cuda_error(cudaEventSynchronize(event_of(event))); }
CudaError event_done(void* event, int* done) {
  const cudaError_t error = cudaEventQuery(event_of(event));
  *done = error != cudaErrorNotReady;
  return error == cudaErrorNotReady ? nullptr : cuda_error(error);
}

constexpr CudaPlugin kPlugin = {kCudaPluginAbi,     device_count,
                                device_name,        use_device,
                                allocate,           release,
                                allocate_pinned,    release_pinned,
                                stream_create,      stream_destroy,
                                stream_synchronize, copy_async,
                                zero_async,         event_create,
                                event_destroy,      event_record,
                                event_wait,         event_synchronize,
                                event_done,         rmsnorm_cuda,
                                swiglu_cuda,        paged_attention_decode_cuda};

}  // namespace
}  // namespace penstock

extern "C" __attribute__((visibility("default"))) const penstock::CudaPlugin* penstock_cuda_plugin() {
  return &penstock::kPlugin;
}
