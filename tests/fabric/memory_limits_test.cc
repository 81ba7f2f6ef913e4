// Limits that would break an allocation later are found before, with the remedy.
#include "fabric/memory_limits.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

constexpr uint64_t kMegabyte = 1u << 20;
constexpr uint64_t kUnlimited = ~uint64_t{0};

Status check(const MemoryLimits& limits, const std::string& transports, uint64_t megabytes) {
  return check_memory_limits(limits, transports, megabytes * kMegabyte);
}

std::string refusal(const Status& status) {
  if (status.ok()) return "";
  EXPECT_EQ(status.code(), Error::kResourceExhausted);
  return status.message();
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(MemoryLimits, ContainerWith64MegabytesOfShmIsRefusedWithTheRemedy) {
  const MemoryLimits limits{64 * kMegabyte, kUnlimited, false};
  EXPECT_EQ(refusal(check(limits, "posix,tcp,self", 60)), "");  // 4 MB stay for the transport itself
  const std::string text = refusal(check(limits, "posix,tcp,self", 61));
  EXPECT_TRUE(holds(text, "/dev/shm has 64 MB free, 65 MB are needed")) << text;
  EXPECT_TRUE(holds(text, "--shm-size")) << text;
  EXPECT_TRUE(holds(text, "kv_transfer.transports")) << text;
}

TEST(MemoryLimits, ShmCountsForEveryNameThatBringsPosixIn) {
  const MemoryLimits limits{64 * kMegabyte, kUnlimited, false};
  for (const char* transports : {"posix", "self,posix", "shm,tcp", "sm", "mm,self", "all", "^tcp"})
    EXPECT_FALSE(check(limits, transports, 100).ok()) << transports;
  for (const char* transports : {"tcp,self", "sysv,tcp", "^posix"})
    EXPECT_EQ(refusal(check(limits, transports, 100)), "") << transports;
}

TEST(MemoryLimits, LockedMemoryCountsWhereRdmaPinsIt) {
  const MemoryLimits limits{kUnlimited, 8 * kMegabyte, true};
  EXPECT_EQ(refusal(check(limits, "rc,posix,tcp,self", 8)), "");
  const std::string text = refusal(check(limits, "rc,posix,tcp,self", 9));
  EXPECT_TRUE(holds(text, "locked-memory limit is 8 MB, RDMA must pin 9 MB")) << text;
  EXPECT_TRUE(holds(text, "ulimit -l unlimited")) << text;
  for (const char* transports : {"rc_x", "ud", "dc_mlx5,self", "ib", "all"})
    EXPECT_FALSE(check(limits, transports, 9).ok()) << transports;
}

TEST(MemoryLimits, LockedMemoryDoesNotCountWithoutRdma) {
  for (const char* transports : {"tcp,self", "self,tcp", "posix,tcp,self", "tcp,posix"})
    EXPECT_EQ(refusal(check({kUnlimited, 0, true}, transports, 9)), "") << transports;
  EXPECT_EQ(refusal(check({kUnlimited, 0, false}, "rc,tcp,self", 9)), "") << "no device that would pin it";
}

TEST(MemoryLimits, AbsurdSizesDoNotWrapAround) {
  const MemoryLimits limits{64 * kMegabyte, kUnlimited, false};
  EXPECT_FALSE(check_memory_limits(limits, "posix", ~size_t{0}).ok());
  EXPECT_FALSE(check_memory_limits(limits, "posix", ~size_t{0} - 100).ok());
}

TEST(MemoryLimits, ThisMachineHasSome) {
  const MemoryLimits limits = read_memory_limits();
  EXPECT_GT(limits.shm_free, 0u) << "/dev/shm is not mounted";
  EXPECT_GT(limits.locked_memory, 0u);
}

}  // namespace
}  // namespace penstock
