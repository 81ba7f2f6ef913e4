#include "cli/child_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace penstock::cli {
namespace {

std::string temp_path(const std::string& name) {
  return ::testing::TempDir() + "penstock_child_" + std::to_string(::getpid()) + "_" + name;
}

ChildSpec shell(const std::string& script, const std::string& log) {
  return {.name = "child", .program = "/bin/sh", .arguments = {"sh", "-c", script}, .log_file = log};
}

void wait_for_end(ChildProcess& child) {
  for (int i = 0; i < 2000 && child.running(); ++i) ::poll(nullptr, 0, 5);
  ASSERT_FALSE(child.running());
}

TEST(ChildProcess, OutputGoesToTheLogAndTheCodeIsKept) {
  const std::string log = temp_path("log");
  ChildSpec spec = shell("echo $WORD; echo err >&2; exit 3", log);
  spec.environment = {{"WORD", "out"}};
  auto child = ChildProcess::start(spec);
  ASSERT_TRUE(child.ok()) << child.message();
  wait_for_end(*child);
  EXPECT_EQ(child->exit_code(), 3);
  EXPECT_EQ(child->ending(), "exited with code 3");
  EXPECT_EQ(last_lines(log, 5), "    out\n    err\n");
  EXPECT_EQ(last_lines(log, 1), "    err\n");
  EXPECT_EQ(::getenv("WORD"), nullptr);  // ours is as before
  std::remove(log.c_str());
}

TEST(ChildProcess, MissingProgramIsAFailure) {
  auto child =
      ChildProcess::start({.name = "ghost", .program = "/nonexistent/x", .arguments = {"x"}, .log_file = ""});
  ASSERT_FALSE(child.ok());
  EXPECT_EQ(child.message(), "ghost: cannot run /nonexistent/x: No such file or directory");
  auto unwritable = ChildProcess::start(shell("true", "/nonexistent/dir/log"));
  ASSERT_FALSE(unwritable.ok());
  EXPECT_EQ(unwritable.code(), Error::kIo);
}

// The child and what it started itself: its group is killed.
TEST(ChildProcess, DestructionKillsTheGroup) {
  const std::string log = temp_path("group");
  pid_t child_pid = 0, grandchild = 0;
  {
    auto child = ChildProcess::start(shell("sleep 1000 & echo $!; wait", log));
    ASSERT_TRUE(child.ok());
    child_pid = child->pid();
    for (int i = 0; i < 2000 && grandchild == 0; ++i) {
      std::ifstream(log) >> grandchild;
      ::poll(nullptr, 0, 5);
    }
    ASSERT_GT(grandchild, 0);
  }
  EXPECT_EQ(::kill(child_pid, 0), -1);  // reaped
  // The grandchild is init's to reap; killed, it is gone or a zombie for a moment.
  bool gone = false;
  for (int i = 0; i < 2000 && !gone; ++i) {
    std::ifstream stat("/proc/" + std::to_string(grandchild) + "/stat");
    std::string pid, name, state;
    gone = !(stat >> pid >> name >> state) || state == "Z";
    ::poll(nullptr, 0, 5);
  }
  EXPECT_TRUE(gone);
  std::remove(log.c_str());
}

// A supervisor that is killed without a chance takes its children along.
TEST(ChildProcess, DiesWithItsParent) {
  const std::string log = temp_path("orphan");
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    auto child = ChildProcess::start(shell("sleep 1000", log));
    const pid_t pid = child.ok() ? child->pid() : -1;
    if (::write(ends[1], &pid, sizeof(pid)) != sizeof(pid)) ::_exit(1);
    ::pause();
  }
  pid_t orphan = 0;
  ASSERT_EQ(::read(ends[0], &orphan, sizeof(orphan)), static_cast<ssize_t>(sizeof(orphan)));
  ASSERT_GT(orphan, 0);
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  bool gone = false;
  for (int i = 0; i < 2000 && !gone; ++i) {
    std::ifstream stat("/proc/" + std::to_string(orphan) + "/stat");
    std::string pid, name, state;
    gone = !(stat >> pid >> name >> state) || state == "Z";
    ::poll(nullptr, 0, 5);
  }
  EXPECT_TRUE(gone);
  ::close(ends[0]);
  ::close(ends[1]);
  std::remove(log.c_str());
}

// Signals that the supervisor blocks must reach the child.
TEST(ChildProcess, SignalsAreUnblockedInTheChild) {
  sigset_t set, before;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &set, &before);
  const std::string log = temp_path("signal");
  auto child = ChildProcess::start(shell("exec sleep 1000", log));
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  ASSERT_TRUE(child.ok());
  child->send(SIGTERM);
  wait_for_end(*child);
  EXPECT_EQ(child->exit_code(), 128 + SIGTERM);
  EXPECT_EQ(child->ending(), "was killed by signal 15 (Terminated)");
  std::remove(log.c_str());
}

}  // namespace
}  // namespace penstock::cli
