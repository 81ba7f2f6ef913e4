// The emulator itself: what it runs rightly, and planted faults that it must catch.
#include "kernels/emulator/emulator.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/launch_cuda.h"

namespace penstock {
namespace {

constexpr unsigned kThreads = 96;

class EmulatorTest : public testing::TestWithParam<bool> {
 protected:
  EmulatorTest() { emulator::set_reverse_order(GetParam()); }
  ~EmulatorTest() override { emulator::set_reverse_order(false); }
};
INSTANTIATE_TEST_SUITE_P(Order, EmulatorTest, testing::Values(false, true),
                         [](const auto& param_info) { return param_info.param ? "Reverse" : "Forward"; });

std::string error_of(const char* error) { return error == nullptr ? "" : error; }

__global__ void block_sum_kernel(const float* x, float* sums, bool with_barrier) {
  float* warp_sums = PENSTOCK_SHARED(float);
  const float sum = warp_sum(x[blockIdx.x * blockDim.x + threadIdx.x]);
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
  if (with_barrier) __syncthreads();
  float total = 0;
  for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) total += warp_sums[warp];
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

TEST_P(EmulatorTest, BlockReduction) {
  std::vector<float> x(4 * kThreads), sums(4);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  EXPECT_EQ(error_of(PENSTOCK_LAUNCH(block_sum_kernel, dim3(4), dim3(kThreads), 16, nullptr, x.data(),
                                     sums.data(), true)),
            "");
  EXPECT_EQ(sums, (std::vector<float>{4560, 13776, 22992, 32208}));
  EXPECT_GT(emulator::switch_count(), 4 * kThreads);
}

// Canary: without the barrier thread 0 reads what the other warps have not written.
TEST(Emulator, AMissingBarrierShowsInTheResult) {
  const std::vector<float> x(kThreads, 1.0F);
  float sum = 0;
  EXPECT_EQ(error_of(PENSTOCK_LAUNCH(block_sum_kernel, dim3(1), dim3(kThreads), 16, nullptr, x.data(), &sum,
                                     false)),
            "");
  EXPECT_TRUE(std::isnan(sum));
}

__global__ void read_neighbour_kernel(float* y, int distance) {
  float* shared = PENSTOCK_SHARED(float);
  shared[threadIdx.x] = 1;
  const int neighbour = static_cast<int>(threadIdx.x) + distance;
  if (neighbour >= 0 && neighbour < static_cast<int>(kThreads)) y[threadIdx.x] = shared[neighbour];
}

// A read from below is hidden by the rising order and shown by the falling one: that is what it is for.
TEST(Emulator, EachOrderShowsItsHalfOfTheMissingBarriers) {
  for (const int distance : {-1, 1}) {
    for (const bool reverse : {false, true}) {
      emulator::set_reverse_order(reverse);
      std::vector<float> y(kThreads, 1.0F);
      EXPECT_EQ(error_of(PENSTOCK_LAUNCH(read_neighbour_kernel, dim3(1), dim3(kThreads), kThreads * 4,
                                         nullptr, y.data(), distance)),
                "");
      const bool seen = std::isnan(y[kThreads / 2]);
      EXPECT_EQ(seen, (distance > 0) != reverse) << distance << reverse;
    }
  }
  emulator::set_reverse_order(false);
}

// Rounds that share a buffer; without the second barrier a warp overwrites what another still has to read.
__global__ void rounds_kernel(float* mistakes, bool second_barrier) {
  float* shared = PENSTOCK_SHARED(float);
  for (int round = 0; round < 3; ++round) {
    const float mine = warp_max(static_cast<float>(round));  // a warp exchange between the rounds
    shared[threadIdx.x] = mine;
    __syncthreads();
    if (shared[(threadIdx.x + 32) % kThreads] != mine) mistakes[threadIdx.x] += 1;
    if (second_barrier) __syncthreads();
  }
}

TEST_P(EmulatorTest, AWarpRunsAheadOfTheOthers) {
  for (const bool second_barrier : {true, false}) {
    std::vector<float> mistakes(kThreads);
    EXPECT_EQ(error_of(PENSTOCK_LAUNCH(rounds_kernel, dim3(1), dim3(kThreads), kThreads * 4, nullptr,
                                       mistakes.data(), second_barrier)),
              "");
    EXPECT_EQ(mistakes == std::vector<float>(kThreads), second_barrier);
  }
}

__global__ void divergent_kernel(int kind) {
  if (kind == 0) {
    if (threadIdx.x < 16) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  }
  if (kind == 1 && threadIdx.x >= 64) return;
  if (kind == 2 && threadIdx.x == 40) __shfl_xor_sync(kFullWarp, 1, 1);
  __syncthreads();
}

TEST_P(EmulatorTest, DivergentBarriersAreNamed) {
  const auto run = [](int kind) {
    return error_of(PENSTOCK_LAUNCH(divergent_kernel, dim3(2), dim3(kThreads), 0, nullptr, kind));
  };
  const std::string two_places = run(0), returned = run(1), shuffle = run(2);
  EXPECT_NE(two_places.find("divergent_kernel, block ("), std::string::npos) << two_places;
  EXPECT_NE(two_places.find("divergent barrier: threads 0-15 wait in __syncthreads (emulator_test.cc:"),
            std::string::npos)
      << two_places;
  EXPECT_NE(returned.find("threads 64-95 have returned"), std::string::npos) << returned;
  EXPECT_NE(shuffle.find("threads 40-40 wait in __shfl_xor_sync"), std::string::npos) << shuffle;
  EXPECT_EQ(run(3), "");  // and after three failed launches the next one is sound
}

__global__ void shared_overrun_kernel(int index, bool write, float* y) {
  float* shared = PENSTOCK_SHARED(float);
  if (threadIdx.x != 3) return;
  if (write) {
    shared[index] = 1;
  } else {
    *y = shared[index];
  }
}

TEST_P(EmulatorTest, SharedMemoryHasEnds) {
  float y = 0;
  const auto run = [&](int index, bool write, int64_t bytes) {
    return error_of(
        PENSTOCK_LAUNCH(shared_overrun_kernel, dim3(1), dim3(kThreads), bytes, nullptr, index, write, &y));
  };
  EXPECT_EQ(run(63, true, 256), "");
  EXPECT_EQ(run(63, false, 256), "");
  EXPECT_NE(run(64, true, 256).find("thread 3 touched byte 256 of the shared memory, which has 256"),
            std::string::npos);
  EXPECT_NE(run(64, false, 256).find("thread 3 touched byte 256"), std::string::npos);
  EXPECT_NE(run(0, false, 0).find("thread 3 touched byte 0"), std::string::npos);
  EXPECT_NE(run(2, true, 8).find("wrote outside"), std::string::npos);  // within the alignment
  EXPECT_NE(run(-1, true, 64).find("wrote outside"), std::string::npos);
  EXPECT_EQ(run(0, true, 16), "");
}

__global__ void warp_operations_kernel(int* out) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  int* mine = out + threadIdx.x * 5;
  mine[0] = __shfl_sync(kFullWarp, lane * 10, 7);
  mine[1] = __shfl_down_sync(kFullWarp, lane, 4U);
  mine[2] = static_cast<int>(__ballot_sync(kFullWarp, lane % 3 == 0));
  // The halves of a warp exchange on their own, unequally often.
  const unsigned half_mask = lane < 16 ? 0x0000FFFFU : 0xFFFF0000U;
  int x = lane;
  for (int i = 0; i < (lane < 16 ? 1 : 3); ++i) x = __shfl_xor_sync(half_mask, x, 1);
  mine[3] = x;
  __syncwarp();
  mine[4] = __shfl_xor_sync(kFullWarp, lane, 31);
}

TEST_P(EmulatorTest, WarpOperations) {
  std::vector<int> out(kThreads * 5);
  EXPECT_EQ(
      error_of(PENSTOCK_LAUNCH(warp_operations_kernel, dim3(1), dim3(kThreads), 0, nullptr, out.data())), "");
  for (int thread = 0; thread < static_cast<int>(kThreads); ++thread) {
    const int lane = thread % 32, *mine = out.data() + thread * 5;
    EXPECT_EQ(mine[0], 70);
    EXPECT_EQ(mine[1], lane + 4 < 32 ? lane + 4 : lane);
    EXPECT_EQ(static_cast<unsigned>(mine[2]), 0x49249249U);
    EXPECT_EQ(mine[3], lane ^ 1);
    EXPECT_EQ(mine[4], 31 - lane);
  }
}

__global__ void wrong_mask_kernel(bool read_outside) {
  if (read_outside && threadIdx.x < 16) __shfl_xor_sync(0x0000FFFFU, 1, 16);
  if (!read_outside && threadIdx.x == 5) __syncwarp(0x1);
}

TEST_P(EmulatorTest, WrongMasksAreErrors) {
  const auto run = [](bool read_outside) {
    return error_of(PENSTOCK_LAUNCH(wrong_mask_kernel, dim3(1), dim3(32), 0, nullptr, read_outside));
  };
  EXPECT_NE(run(true).find("takes no part in the exchange"), std::string::npos);
  EXPECT_NE(run(false).find("thread 5 is not in the mask of its own __syncwarp"), std::string::npos);
}

__global__ void indices_kernel(int* count, unsigned* sum) {
  atomicAdd(count, 1);
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  atomicAdd(sum, block * blockDim.x * blockDim.y * blockDim.z + thread);
}

TEST_P(EmulatorTest, EveryThreadOfEveryBlockRunsOnce) {
  int count = 0;
  unsigned sum = 0;
  EXPECT_EQ(error_of(PENSTOCK_LAUNCH(indices_kernel, dim3(3, 2, 2), dim3(5, 3, 2), 0, nullptr, &count, &sum)),
            "");
  EXPECT_EQ(count, 360);
  EXPECT_EQ(sum, 359U * 360 / 2);
}

TEST(Emulator, ImpossibleLaunchesAreRefused) {
  int count = 0;
  unsigned sum = 0;
  for (const dim3 block : {dim3(1025), dim3(0), dim3(32, 33)}) {
    EXPECT_NE(PENSTOCK_LAUNCH(indices_kernel, dim3(1), block, 0, nullptr, &count, &sum), nullptr);
  }
  EXPECT_NE(PENSTOCK_LAUNCH(indices_kernel, dim3(1), dim3(32), 49 << 10, nullptr, &count, &sum), nullptr);
  EXPECT_EQ(count, 0);
}

}  // namespace
}  // namespace penstock
