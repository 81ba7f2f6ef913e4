#include "kernels/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <vector>

namespace penstock {
namespace {

TEST(ThreadPool, EveryChunkRunsOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int64_t chunks = 0; chunks < 300; ++chunks) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(chunks));
      pool.parallel_for(chunks, [&](int64_t chunk) { ++runs[static_cast<size_t>(chunk)]; });
      for (const std::atomic<int>& count : runs) ASSERT_EQ(count, 1) << chunks << " chunks";
    }
  }
}

// Plain writes by helpers are visible to the caller, and the caller's to helpers: a chain of regions over the
// same memory. Thread sanitizer watches.
TEST(ThreadPool, RegionsAreOrdered) {
  ThreadPool pool(3);
  std::vector<int64_t> now(64, 0), next(64, 0);
  for (int64_t round = 0; round < 5000; ++round) {
    pool.parallel_for(64, [&](int64_t i) {
      next[static_cast<size_t>(i)] = now[static_cast<size_t>((i * 7 + 1) % 64)] + 1;
    });
    std::swap(now, next);
  }
  for (const int64_t value : now) EXPECT_EQ(value, 5000);
}

TEST(ThreadPool, HelpersWakeFromSleep) {
  ThreadPool pool(2);
  std::set<std::thread::id> seen;
  std::mutex lock;
  for (int round = 0; round < 50 && seen.size() < 2; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // longer than a helper spins
    pool.parallel_for(64, [&](int64_t) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      const std::lock_guard guard(lock);
      seen.insert(std::this_thread::get_id());
    });
  }
  EXPECT_EQ(seen.size(), 2u);
}

// A helper that stands still in the middle of its chunk costs that region, and then the caller works alone
// for a while instead of meeting the helper again.
TEST(ThreadPool, GoesSoloAfterASlowHelper) {
  ThreadPool pool(2);
  const std::thread::id caller = std::this_thread::get_id();
  bool helped = false;
  for (int round = 0; round < 100 && !helped; ++round) {
    std::atomic<bool> slow = false;
    pool.parallel_for(64, [&](int64_t) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      if (std::this_thread::get_id() != caller && !slow.exchange(true)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    });
    helped = slow;
  }
  ASSERT_TRUE(helped);
  const int64_t before = pool.solo_regions();
  pool.parallel_for(8, [&](int64_t) { EXPECT_EQ(std::this_thread::get_id(), caller); });
  EXPECT_EQ(pool.solo_regions(), before + 1);
}

TEST(ThreadPool, ScratchIsAlignedAndKeptBetweenCalls) {
  ThreadPool pool(1);
  const std::span<std::byte> large = pool.scratch(10000);
  EXPECT_EQ(large.size(), 10000u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large.data()) % 64, 0u);
  EXPECT_EQ(pool.scratch(100).data(), large.data());
}

}  // namespace
}  // namespace penstock
