#include "kernels/thread_pool.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

namespace penstock {
namespace {

// word_ = region << 40 | chunks << 20 | next. A claim is a compare-and-swap from next to next + 1 on the
// whole word, so it succeeds only in the region, and against the number of chunks, that the claimer has seen.
// fn_ and context_ are read after a claim: until that chunk is done the caller cannot leave the region.
constexpr int kRegionShift = 40, kChunksShift = 20;
constexpr uint64_t kNextMask = (uint64_t{1} << kChunksShift) - 1;

constexpr uint64_t next_of(uint64_t word) { return word & kNextMask; }
constexpr uint64_t chunks_of(uint64_t word) { return (word >> kChunksShift) & kNextMask; }
constexpr uint64_t next_region(uint64_t word, int64_t chunks) {
  return ((word >> kRegionShift) + 1) << kRegionShift | static_cast<uint64_t>(chunks) << kChunksShift;
}

constexpr int64_t kSpinNs = 20'000;
constexpr int64_t kWakeNs = 150'000;
constexpr int64_t kLongWaitNs = 300'000;
constexpr int64_t kSoloFirstNs = 5'000'000, kSoloLastNs = 320'000'000;
constexpr int kSlowRegionsMax = 4;

int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>& word, int count) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

// True once `ready` holds; false after kSpinNs.
template <typename F>
bool spin_until(F ready) {
  const int64_t start = now_ns();
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      _mm_pause();
    }
  } while (now_ns() - start < kSpinNs);
  return false;
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  CHECK_GE(threads, 1);
  for (int i = 1; i < threads; ++i) helpers_.emplace_back([this] { helper_loop(); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  wake_helpers();
  for (std::thread& helper : helpers_) helper.join();
}

std::span<std::byte> ThreadPool::scratch(int64_t bytes) {
  constexpr size_t kAlignment = 64;
  const size_t needed = static_cast<size_t>(bytes) + kAlignment;
  if (scratch_.size() < needed) scratch_.resize(needed);
  const size_t misaligned = reinterpret_cast<uintptr_t>(scratch_.data()) % kAlignment;
  return {scratch_.data() + (kAlignment - misaligned), static_cast<size_t>(bytes)};
}

void ThreadPool::run(ChunkFn fn, void* context, int64_t chunks) {
  if (solo_until_ns_ != 0) {
    if (now_ns() < solo_until_ns_) {
      ++solo_regions_;
      for (int64_t chunk = 0; chunk < chunks; ++chunk) fn(context, chunk);
      return;
    }
    solo_until_ns_ = 0;
  }
  fn_ = fn;
  context_ = context;
  helper_done_.store(0, std::memory_order_relaxed);
  // seq_cst, as in helper_loop(): either the helper sees the new word before it sleeps, or we see the
  // sleeper.
  word_.store(next_region(word_.load(std::memory_order_relaxed), chunks));
  const bool wake = sleepers_.load() != 0;
  const int64_t start = now_ns();
  if (wake) wake_helpers();
  const int64_t helped = chunks - work();
  int64_t wait_ns = 0;
  const int64_t worked = now_ns();
  if (helper_done_.load(std::memory_order_acquire) != helped) {
    wait_for_helpers(static_cast<uint32_t>(helped));
    wait_ns = now_ns() - worked;
  }
  // A helper that slept could not help with a region shorter than its wake-up.
  judge(chunks, helped, wait_ns, /*enough_time=*/!wake || worked - start > kWakeNs);
}

int64_t ThreadPool::work() {
  int64_t done = 0;
  uint64_t word = word_.load(std::memory_order_acquire);
  while (next_of(word) < chunks_of(word)) {
    if (word_.compare_exchange_weak(word, word + 1, std::memory_order_acquire)) {
      fn_(context_, static_cast<int64_t>(next_of(word)));
      ++done;
      word = word_.load(std::memory_order_acquire);
    }
  }
  return done;
}

void ThreadPool::wait_for_helpers(uint32_t chunks) {
  const auto all_done = [&] { return helper_done_.load() == chunks; };
  if (spin_until(all_done)) return;
  // Perhaps the helper waits for this very core: sleep, and let the last of its chunks wake us.
  caller_sleeps_.store(1);
  for (uint32_t done = helper_done_.load(); done != chunks; done = helper_done_.load()) {
    futex_wait(helper_done_, done);
  }
  caller_sleeps_.store(0);
}

// Solo mode: helpers that take less than an eighth of the work, or make the caller wait long, do not have a
// core of their own just now. Try again later, and later still if that did not help.
void ThreadPool::judge(int64_t chunks, int64_t helped, int64_t wait_ns, bool enough_time) {
  const bool too_long = wait_ns > kLongWaitNs;
  if (!too_long && (chunks < 8 || !enough_time)) return;  // says nothing about the helpers
  const bool too_few = helped * 8 < chunks;
  if (!too_few && !too_long) {
    slow_regions_ = 0;
    solo_ns_ = 0;
    return;
  }
  if (!too_long && ++slow_regions_ < kSlowRegionsMax) return;
  slow_regions_ = 0;
  solo_ns_ = solo_ns_ == 0 ? kSoloFirstNs : std::min(2 * solo_ns_, kSoloLastNs);
  solo_until_ns_ = now_ns() + solo_ns_;
}

void ThreadPool::helper_loop() {
  const auto has_work = [this] {
    const uint64_t word = word_.load();
    return next_of(word) < chunks_of(word) || stop_.load(std::memory_order_relaxed);
  };
  while (true) {
    if (!spin_until(has_work)) {
      const uint32_t seen = wake_count_.load();
      sleepers_.fetch_add(1);
      if (!has_work()) futex_wait(wake_count_, seen);
      sleepers_.fetch_sub(1);
    }
    if (stop_.load()) return;
    uint64_t word = word_.load(std::memory_order_acquire);
    while (next_of(word) < chunks_of(word)) {
      if (!word_.compare_exchange_weak(word, word + 1, std::memory_order_acquire)) continue;
      fn_(context_, static_cast<int64_t>(next_of(word)));
      helper_done_.fetch_add(1);
      if (caller_sleeps_.load() != 0) futex_wake(helper_done_, 1);
      word = word_.load(std::memory_order_acquire);
    }
  }
}

void ThreadPool::wake_helpers() {
  wake_count_.fetch_add(1);
  futex_wake(wake_count_, INT_MAX);
}

}  // namespace penstock
