// The speed at which this machine reads memory: the limit of decoding at batch 1.
#pragma once

#include <cstdint>

#include "kernels/isa.h"
#include "kernels/thread_pool.h"

namespace penstock::bench {

// Streams through `bytes` bytes on all threads of the pool, `passes` times, with and without software
// prefetch; returns the median GB/s of the faster of the two.
double read_bandwidth_gbps(ThreadPool& threads, Isa isa, const void* data, int64_t bytes, int passes);

}  // namespace penstock::bench
