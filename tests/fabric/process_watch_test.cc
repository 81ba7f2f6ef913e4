// Exits of processes as the kernel tells them: of those that end, that are killed, that nobody reaped, and of
// those whose pid belongs to another one by now.
#include "fabric/process_watch.h"

#include <gtest/gtest.h>

#include "tests/fabric/child_process.h"

namespace penstock {
namespace {

// A child that says who it is, then waits to be told to end.
class ProcessWatch : public testing::Test {
 protected:
  ProcessWatch()
      : child_([](Channel& channel) {
          const Result<TransportIdentity> self = identify_this_process();
          CHECK(self.ok());
          channel.send(std::to_string(self->start_ticks));
          static_cast<void>(channel.receive());
        }) {
    identity_ = *identify_this_process();
    identity_.pid = static_cast<uint32_t>(child_.pid());
    identity_.start_ticks = std::stoull(*child_.channel().receive());
  }
  // Waits for the kernel, not for a time.
  static void wait_for_exit(const UniqueFd& pidfd) {
    pollfd entry{pidfd.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 20000), 1);
  }

  ChildProcess child_;
  TransportIdentity identity_;
};

TEST(ProcessIdentity, NamesThisProcess) {
  const Result<TransportIdentity> self = identify_this_process();
  ASSERT_TRUE(self.ok());
  EXPECT_EQ(self->pid, static_cast<uint32_t>(::getpid()));
  EXPECT_FALSE(self->host.empty());
  EXPECT_GT(self->pid_namespace, 0u);
  EXPECT_GT(self->start_ticks, 0u);
  EXPECT_NE(self->instance, 0u);
  EXPECT_NE(self->instance, identify_this_process()->instance);
}

TEST_F(ProcessWatch, ExitIsSeen) {
  const Result<UniqueFd> pidfd = watch_process(identity_);
  ASSERT_TRUE(pidfd.ok()) << pidfd.message();
  EXPECT_FALSE(has_exited(*pidfd));
  child_.channel().send("end");
  wait_for_exit(*pidfd);
  EXPECT_TRUE(has_exited(*pidfd));
  EXPECT_EQ(child_.reap(), 0);
  EXPECT_TRUE(has_exited(*pidfd));
}

TEST_F(ProcessWatch, KilledIsSeenBeforeAnyoneReapsIt) {
  const Result<UniqueFd> pidfd = watch_process(identity_);
  ASSERT_TRUE(pidfd.ok()) << pidfd.message();
  child_.signal(SIGKILL);
  wait_for_exit(*pidfd);
  EXPECT_TRUE(has_exited(*pidfd));
  EXPECT_EQ(::kill(child_.pid(), 0), 0) << "a zombie: signals still find it";
}

TEST_F(ProcessWatch, StoppedHasNotExited) {
  const Result<UniqueFd> pidfd = watch_process(identity_);
  ASSERT_TRUE(pidfd.ok()) << pidfd.message();
  child_.signal(SIGSTOP);
  child_.wait_stopped();
  EXPECT_FALSE(has_exited(*pidfd));
  child_.signal(SIGCONT);
  EXPECT_FALSE(has_exited(*pidfd));
}

TEST_F(ProcessWatch, ZombieAndReapedAreUnavailable) {
  {
    const Result<UniqueFd> before = watch_process(identity_);
    ASSERT_TRUE(before.ok()) << before.message();
    child_.signal(SIGKILL);
    wait_for_exit(*before);
  }
  const Result<UniqueFd> zombie = watch_process(identity_);
  ASSERT_FALSE(zombie.ok());
  EXPECT_EQ(zombie.code(), Error::kUnavailable);
  EXPECT_EQ(child_.reap(), -SIGKILL);
  const Result<UniqueFd> reaped = watch_process(identity_);
  ASSERT_FALSE(reaped.ok());
  EXPECT_EQ(reaped.code(), Error::kUnavailable);
  EXPECT_NE(reaped.message().find(std::to_string(identity_.pid)), std::string::npos) << reaped.message();
}

TEST_F(ProcessWatch, ReusedPidIsNotTheProcess) {
  identity_.start_ticks += 1;  // what a later owner of the pid would show
  const Result<UniqueFd> pidfd = watch_process(identity_);
  ASSERT_FALSE(pidfd.ok());
  EXPECT_EQ(pidfd.code(), Error::kUnavailable);
  EXPECT_NE(pidfd.message().find("another process"), std::string::npos) << pidfd.message();
}

TEST_F(ProcessWatch, ForeignPidNamespaceIsUnsupported) {
  identity_.pid_namespace += 1;
  const Result<UniqueFd> pidfd = watch_process(identity_);
  ASSERT_FALSE(pidfd.ok());
  EXPECT_EQ(pidfd.code(), Error::kUnsupported);
}

TEST_F(ProcessWatch, MemoryIsMappedUntilTheProcessGoes) {
  const auto address = reinterpret_cast<uint64_t>(&identity_);  // the child, a fork, has the same stack
  const auto pid = static_cast<uint32_t>(child_.pid());
  EXPECT_TRUE(still_maps(pid, address));
  EXPECT_FALSE(still_maps(pid, 16)) << "the first page belongs to nobody";
  child_.signal(SIGKILL);
  child_.wait_dead();
  EXPECT_FALSE(still_maps(pid, address)) << "a zombie has no memory";
  child_.reap();
  EXPECT_FALSE(still_maps(pid, address));
}

TEST(SharedMemoryPossible, OnOneKernelWithATransportThatMaps) {
  TransportIdentity a, b;
  a.host = b.host = "boot-id";
  const auto possible = [&](const std::string& transports) {
    a.transports = b.transports = transports;
    return shared_memory_possible(a, b);
  };
  for (const char* list : {"posix,tcp,self", "self,sysv", "cma", "shm", "all", "^tcp", "tcp,xpmem", "new"})
    EXPECT_TRUE(possible(list)) << list << ": whatever is not known to be a network counts";
  for (const char* list : {"tcp,self", "tcp", "rc,self", "rc_mlx5,ud_mlx5,dc_x,tcp,self", "ib"})
    EXPECT_FALSE(possible(list)) << list;
  b.host = "another";
  EXPECT_FALSE(possible("posix,tcp,self"));
}

}  // namespace
}  // namespace penstock
