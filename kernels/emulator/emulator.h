// Lets g++ compile and run .cu files, so that CUDA kernels are tested where there is no GPU.
//
// A launch runs on the calling thread, block after block; every CUDA thread of a block is a fiber that runs
// until a barrier or a warp exchange. What it catches, as the launch's error, with the kernel's name, the
// threads and the source lines: barriers and warp exchanges that not all threads reach (a thread that has
// returned counts as missing), exchanges with lanes outside the mask, accesses beyond the dynamic shared
// memory. What it makes visible in the results: shared memory that is read before it is written (NaN at the
// start of each block) and a missing barrier (warps run one after the other, and so do the threads of a warp,
// in rising or, by set_reverse_order(), in falling order). What it cannot show: timing, memory coalescing,
// races between blocks. The language covered is what our kernels use; add what a new kernel needs.
//
// Single-threaded: one launch at a time in a process. Only tests link it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

namespace penstock::emulator {

using Location = std::source_location;

// The built-in variables of the fiber that runs.
struct Builtins {
  dim3 thread_index, block_index, block_size, grid_size;
};
extern Builtins builtins;

// Runs body(context) as every thread of every block; nullptr, or what went wrong, valid until the next
// launch.
const char* run_grid(const char* kernel_name, dim3 grid, dim3 block, int64_t shared_bytes,
                     void (*body)(void*), void* context);

template <typename Kernel, typename... Args>
const char* launch(const char* kernel_name, Kernel kernel, dim3 grid, dim3 block, int64_t shared_bytes,
                   const Args&... args) {
  auto call = [&] { kernel(args...); };
  using Call = decltype(call);
  return run_grid(
      kernel_name, grid, block, shared_bytes, [](void* self) { (*static_cast<Call*>(self))(); }, &call);
}

void set_reverse_order(bool reverse);  // of blocks and of threads
void* shared_memory();                 // of the running block, aligned to 16 bytes
int64_t switch_count();                // of the last launch

void block_barrier(Location where);
// Waits for all lanes of `mask`; then value_of(lane) is what that lane brought to this exchange.
void warp_exchange(const char* what, uint32_t mask, uint64_t value, Location where);
uint64_t value_of(unsigned lane, uint32_t mask, Location where);
unsigned lane_index();

template <typename T>
uint64_t to_word(T value) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  return word;
}
template <typename T>
T from_word(uint64_t word) {
  T value;
  std::memcpy(&value, &word, sizeof(T));
  return value;
}
template <typename T>
T shuffle(const char* what, uint32_t mask, T value, unsigned source, Location where) {
  warp_exchange(what, mask, to_word(value), where);
  return source < 32 ? from_word<T>(value_of(source, mask, where)) : value;
}

}  // namespace penstock::emulator

#define threadIdx (::penstock::emulator::builtins.thread_index)
#define blockIdx (::penstock::emulator::builtins.block_index)
#define blockDim (::penstock::emulator::builtins.block_size)
#define gridDim (::penstock::emulator::builtins.grid_size)

inline void __syncthreads(std::source_location where = std::source_location::current()) {
  ::penstock::emulator::block_barrier(where);
}
inline void __syncwarp(uint32_t mask = 0xFFFFFFFFU,
                       std::source_location where = std::source_location::current()) {
  ::penstock::emulator::warp_exchange("__syncwarp", mask, 0, where);
}
template <typename T>
T __shfl_sync(uint32_t mask, T value, int lane,
              std::source_location where = std::source_location::current()) {
  return ::penstock::emulator::shuffle("__shfl_sync", mask, value, unsigned(lane) % 32, where);
}
template <typename T>
T __shfl_xor_sync(uint32_t mask, T value, int lane_mask,
                  std::source_location where = std::source_location::current()) {
  const unsigned source = ::penstock::emulator::lane_index() ^ unsigned(lane_mask);
  return ::penstock::emulator::shuffle("__shfl_xor_sync", mask, value, source, where);
}
template <typename T>
T __shfl_down_sync(uint32_t mask, T value, unsigned delta,
                   std::source_location where = std::source_location::current()) {
  const unsigned source = ::penstock::emulator::lane_index() + delta;
  return ::penstock::emulator::shuffle("__shfl_down_sync", mask, value, source, where);
}
inline uint32_t __ballot_sync(uint32_t mask, int predicate,
                              std::source_location where = std::source_location::current()) {
  namespace emulator = ::penstock::emulator;
  emulator::warp_exchange("__ballot_sync", mask, predicate != 0, where);
  uint32_t votes = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1U) != 0 && emulator::value_of(lane, mask, where) != 0) votes |= 1U << lane;
  }
  return votes;
}

// Fibers switch at barriers only, so a plain read-modify-write is atomic here.
template <typename T>
T atomicAdd(T* address, T value) {
  const T old = *address;
  *address = old + value;
  return old;
}
template <typename T>
T atomicMax(T* address, T value) {
  const T old = *address;
  *address = std::max(old, value);
  return old;
}

struct alignas(16) float4 {
  float x, y, z, w;
};
struct __nv_bfloat16 {
  uint16_t bits;
};
inline float __bfloat162float(__nv_bfloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }
inline float rsqrtf(float x) { return 1.0F / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
using std::max;
using std::min;
