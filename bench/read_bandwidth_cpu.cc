#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

#include "bench/read_bandwidth.h"

namespace penstock::bench {
namespace {

// The sums only keep the loads alive. Four at a time, so that no chain of additions limits the speed.
template <bool PREFETCH>
__attribute__((target("avx512f"))) int64_t read_avx512(const char* data, int64_t bytes) {
  __m512i sums[4] = {};
  for (int64_t i = 0; i + 256 <= bytes; i += 256) {
    for (int v = 0; v < 4; ++v) {
      if (PREFETCH) _mm_prefetch(data + i + v * 64 + 12 * 1024, _MM_HINT_T0);
      sums[v] = _mm512_add_epi64(sums[v], _mm512_loadu_si512(data + i + v * 64));
    }
  }
  alignas(64) int64_t lanes[8];
  _mm512_store_si512(
      lanes, _mm512_add_epi64(_mm512_add_epi64(sums[0], sums[1]), _mm512_add_epi64(sums[2], sums[3])));
  return lanes[0] ^ lanes[7];
}

template <bool PREFETCH>
int64_t read_sse(const char* data, int64_t bytes) {
  __m128i sums[4] = {};
  for (int64_t i = 0; i + 64 <= bytes; i += 64) {
    if (PREFETCH) _mm_prefetch(data + i + 12 * 1024, _MM_HINT_T0);
    for (int v = 0; v < 4; ++v) {
      sums[v] = _mm_add_epi64(sums[v], _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + i + v * 16)));
    }
  }
  alignas(16) int64_t lanes[2];
  _mm_store_si128(reinterpret_cast<__m128i*>(lanes),
                  _mm_add_epi64(_mm_add_epi64(sums[0], sums[1]), _mm_add_epi64(sums[2], sums[3])));
  return lanes[0] ^ lanes[1];
}

}  // namespace

double read_bandwidth_gbps(ThreadPool& threads, Isa isa, const void* data, int64_t bytes, int passes) {
  constexpr int64_t kChunk = 512 * 1024;
  const char* const base = static_cast<const char*>(data);
  std::atomic<int64_t> sink = 0;
  std::vector<double> gbps[2];  // without and with prefetch
  for (int pass = 0; pass < 2 * passes; ++pass) {
    const bool prefetch = pass % 2 != 0;
    const auto start = std::chrono::steady_clock::now();
    threads.parallel_for((bytes + kChunk - 1) / kChunk, [&](int64_t chunk) {
      const char* from = base + chunk * kChunk;
      const int64_t count = std::min(kChunk, bytes - chunk * kChunk);
      const auto read = isa >= Isa::kAvx512 ? (prefetch ? read_avx512<true> : read_avx512<false>)
                                            : (prefetch ? read_sse<true> : read_sse<false>);
      sink.fetch_add(read(from, count), std::memory_order_relaxed);
    });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    gbps[prefetch].push_back(static_cast<double>(bytes) / seconds.count() * 1e-9);
  }
  const auto median = [](std::vector<double>& values) {
    std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
  };
  return std::max(median(gbps[0]), median(gbps[1]));
}

}  // namespace penstock::bench
