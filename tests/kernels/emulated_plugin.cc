// A CUDA plugin without CUDA: host memory, immediate copies, and the .cu kernels under the fiber emulator. So
// make_cuda_device(), its streams and the ops run in every test machine as they would over the real plugin.
//
// PENSTOCK_EMULATOR_ORDER=reverse runs blocks and threads backwards. Memory is filled with NaN when
// allocated.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "kernels/cuda_plugin.h"
#include "kernels/emulator/emulator.h"
#include "kernels/ops_cuda.h"

namespace penstock {
namespace {

CudaError device_count(int* count) {
  *count = 1;
  return nullptr;
}
CudaError device_name(int, char* name, int64_t name_bytes) {
  std::snprintf(name, static_cast<size_t>(name_bytes), "emulator");
  return nullptr;
}
CudaError use_device(int ordinal) {
  const char* order = std::getenv("PENSTOCK_EMULATOR_ORDER");
  emulator::set_reverse_order(order != nullptr && std::string_view(order) == "reverse");
  return ordinal == 0 ? nullptr : "invalid device ordinal";
}

CudaError allocate(int64_t bytes, void** data) {
  *data = std::malloc(static_cast<size_t>(bytes));  // exactly: the address sanitizer sees the end
  if (*data == nullptr) return "out of memory";
  std::memset(*data, 0xFF, static_cast<size_t>(bytes));
  return nullptr;
}
CudaError release(void* data) {
  std::free(data);
  return nullptr;
}

CudaError create_handle(void** handle) {
  *handle = std::malloc(1);
  return nullptr;
}
CudaError nothing_to_do(void*) { return nullptr; }
CudaError nothing_to_order(void*, void*) { return nullptr; }
CudaError event_done(void*, int* done) {
  *done = 1;
  return nullptr;
}

CudaError copy_async(void* to, const void* from, int64_t bytes, void*) {
  std::memcpy(to, from, static_cast<size_t>(bytes));
  return nullptr;
}
CudaError zero_async(void* to, int64_t bytes, void*) {
  std::memset(to, 0, static_cast<size_t>(bytes));
  return nullptr;
}

constexpr CudaPlugin kPlugin = {.abi = kCudaPluginAbi,
                                .device_count = device_count,
                                .device_name = device_name,
                                .use_device = use_device,
                                .allocate = allocate,
                                .release = release,
                                .allocate_pinned = allocate,
                                .release_pinned = release,
                                .stream_create = create_handle,
                                .stream_destroy = release,
                                .stream_synchronize = nothing_to_do,
                                .copy_async = copy_async,
                                .zero_async = zero_async,
                                .event_create = create_handle,
                                .event_destroy = release,
                                .event_record = nothing_to_order,
                                .event_wait = nothing_to_order,
                                .event_synchronize = nothing_to_do,
                                .event_done = event_done,
                                .rmsnorm = rmsnorm_cuda,
                                .swiglu = swiglu_cuda,
                                .paged_attention_decode = paged_attention_decode_cuda};

}  // namespace
}  // namespace penstock

extern "C" const penstock::CudaPlugin* penstock_cuda_plugin() { return &penstock::kPlugin; }
