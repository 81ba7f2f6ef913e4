// Workers of one CPU stream: the calling thread and threads - 1 helpers.
//
// One thread owns a pool and is the only one to call it. Helpers live as long as the pool; they spin about
// 20 us for more work, then sleep. Chunks are claimed one at a time and the caller works too, waiting only
// for chunks that a helper really took; when helpers are too slow (their cores are busy with something else)
// the caller works alone for a while. So cores can be shared with other processes: no barrier ever waits for
// a thread that is not running, unless it was stopped in the middle of a chunk.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/check.h"

namespace penstock {

class ThreadPool {
 public:
  static constexpr int64_t kChunksMax = (1 << 20) - 1;

  explicit ThreadPool(int threads);  // >= 1, the caller included
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(helpers_.size()) + 1; }

  // Calls fn(chunk) once for each chunk in [0, chunks), on any worker and in any order, and returns when all
  // are done. fn must not throw and must not call the pool. Allocates nothing.
  template <typename F>
  void parallel_for(int64_t chunks, F&& fn) {
    using Fn = std::remove_reference_t<F>;
    CHECK(chunks >= 0 && chunks <= kChunksMax);
    if (chunks <= 1 || helpers_.empty()) {
      for (int64_t chunk = 0; chunk < chunks; ++chunk) fn(chunk);
      return;
    }
    run([](void* context, int64_t chunk) { (*static_cast<Fn*>(context))(chunk); },
        const_cast<void*>(static_cast<const void*>(&fn)), chunks);
  }

  // Memory for one op's intermediate results, aligned to 64 bytes; valid until the next call. Grows to the
  // largest size ever asked for, so that a step allocates nothing once it has seen its largest shape.
  std::span<std::byte> scratch(int64_t bytes);

  // How many calls ran alone although there were helpers; for tests and counters.
  int64_t solo_regions() const { return solo_regions_; }

 private:
  using ChunkFn = void (*)(void* context, int64_t chunk);
  void run(ChunkFn fn, void* context, int64_t chunks);
  int64_t work();  // claims and runs chunks until none is left; returns how many
  void wait_for_helpers(uint32_t chunks);
  void judge(int64_t chunks, int64_t helped, int64_t wait_ns, bool enough_time);
  void helper_loop();
  void wake_helpers();

  // One word says which region runs, how many chunks it has and which is next (see thread_pool.cc).
  alignas(64) std::atomic<uint64_t> word_{0};
  ChunkFn fn_ = nullptr;  // both written before word_ is published, read after a claim
  void* context_ = nullptr;
  alignas(64) std::atomic<uint32_t> helper_done_{0};  // chunks of this region that helpers have finished
  std::atomic<uint32_t> caller_sleeps_{0};
  alignas(64) std::atomic<uint32_t> wake_count_{0};
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<bool> stop_{false};

  // Owned by the caller.
  alignas(64) int64_t solo_until_ns_ = 0;
  int64_t solo_ns_ = 0;
  int slow_regions_ = 0;
  int64_t solo_regions_ = 0;
  std::vector<std::byte> scratch_;
  std::vector<std::thread> helpers_;
};

}  // namespace penstock
