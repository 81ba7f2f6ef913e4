// Limits of this machine that allow an allocation and break it later: found before, with the remedy.
//
// Pure checks over numbers, and the reading of the numbers. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace penstock {

struct MemoryLimits {
  uint64_t shm_free = 0;       // bytes free in /dev/shm; containers give 64 MB
  uint64_t locked_memory = 0;  // RLIMIT_MEMLOCK; ~0: unlimited
  bool rdma_present = false;   // a device under /sys/class/infiniband: registering memory pins it
};

[[nodiscard]] MemoryLimits read_memory_limits();

// kResourceExhausted when `bytes` cannot be had over `transports` (a UCX_TLS list), naming limit and remedy.
[[nodiscard]] Status check_memory_limits(const MemoryLimits& limits, const std::string& transports,
                                         size_t bytes);

}  // namespace penstock
