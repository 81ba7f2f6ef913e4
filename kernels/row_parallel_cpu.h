// Splits the rows of a memory-light op over a CPU stream's threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "kernels/device.h"
#include "kernels/thread_pool.h"

namespace penstock {

// Calls row_fn(row) for each row. `grain`: elements worth a chunk of their own (about 5 us of work); less
// than two chunks of work stay on the calling thread, where waking a helper would cost more than it saves.
template <typename RowFn>
void for_each_row(Stream& stream, int64_t rows, int64_t cols, int64_t grain, RowFn&& row_fn) {
  const int64_t chunks = std::min({rows * cols / grain, rows, int64_t{256}});
  if (chunks < 2 || stream.threads().threads() == 1) {
    for (int64_t row = 0; row < rows; ++row) row_fn(row);
    return;
  }
  stream.threads().parallel_for(chunks, [&](int64_t chunk) {
    const int64_t end = rows * (chunk + 1) / chunks;
    for (int64_t row = rows * chunk / chunks; row < end; ++row) row_fn(row);
  });
}

// Ops that have no CUDA kernel yet stop here, before a device pointer is followed on the host.
inline void require_cpu(const Stream& stream, std::string_view op) {
  if (stream.kind() != DeviceKind::kCpu) [[unlikely]]
    check_failed(__FILE__, __LINE__, "stream is on a CPU",
                 std::string(op) + " has no CUDA kernel in this build");
}

}  // namespace penstock
