// The supervisor against a shell script in the place of the binary: what it starts, and that nothing stays.
#include "cli/supervisor.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/cli/local_server.h"

namespace penstock::cli {
namespace {

constexpr const char* kReady =
    "HTTP/1.1 200 OK\r\n\r\n{\"cluster\": \"t\", \"ready\": true, \"nodes\": "
    "[{\"state\": \"ready\"}, {\"state\": \"ready\"}]}";

class SupervisorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "penstock_supervisor_" + std::to_string(::getpid());
    std::filesystem::create_directories(dir_);
    // Before a test's server starts its thread: a signal goes to any thread that does not block it.
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, &mask_);
    auto config = parse_cluster_config(
        "[[node]]\nname = \"p\"\nrole = \"prefill\"\n[[node]]\nname = \"d\"\nrole = \"decode\"\n", "t.toml");
    config_ = *config;
    config_.router.drain_timeout_ms = 500;
  }
  void TearDown() override {
    ::sigprocmask(SIG_SETMASK, &mask_, nullptr);
    std::filesystem::remove_all(dir_);
  }
  // `script` runs as `sh -c` would, with $2 "router" or "node" and $6 the node's name.
  SupervisorOptions with(const std::string& script) {
    const std::string path = dir_ + "/program";
    std::ofstream(path) << "#!/bin/sh\necho $$ >> " << dir_ << "/pids\n" << script << "\n";
    ::chmod(path.c_str(), 0755);
    return {.program = path,
            .config_file = "t.toml",
            .sets = {"a.b=c"},
            .log_dir = dir_,
            .ready_timeout = Duration::from_ms(5000)};
  }
  void expect_nothing_runs() {
    std::ifstream pids(dir_ + "/pids");
    int count = 0;
    for (pid_t pid = 0; pids >> pid; ++count) EXPECT_EQ(::kill(pid, 0), -1) << pid;
    EXPECT_GT(count, 0);
  }

  std::string dir_;
  ClusterConfig config_;
  std::ostringstream progress_;
  sigset_t mask_;
};

TEST_F(SupervisorTest, RunsACommandAndStopsEverything) {
  LocalServer admin({kReady});
  config_.router.admin = admin.address().text();
  config_.router.listen = "127.0.0.1:4242";
  {
    Supervisor supervisor(config_, with("echo \"$@\"; exec sleep 1000"), progress_);
    const Status started = supervisor.start();
    ASSERT_TRUE(started.ok()) << started.message();
    auto code =
        supervisor.run({"/bin/sh", "-c", "test $PENSTOCK__ROUTER__LISTEN = 127.0.0.1:4242 && exit 7"});
    ASSERT_TRUE(code.ok()) << code.message();
    EXPECT_EQ(*code, 7);
    EXPECT_EQ(last_lines(dir_ + "/router.log", 1), "    router -c t.toml --set a.b=c\n");
    EXPECT_EQ(last_lines(dir_ + "/d.log", 1), "    node --role decode --name d -c t.toml --set a.b=c\n");
  }
  expect_nothing_runs();
}

TEST_F(SupervisorTest, FindsItsCommandAlongThePathOrSaysThatThereIsNone) {
  LocalServer admin({kReady});
  config_.router.admin = admin.address().text();
  Supervisor supervisor(config_, with("exec sleep 1000"), progress_);
  ASSERT_TRUE(supervisor.start().ok());
  auto code = supervisor.run({"sh", "-c", "exit 7"});
  ASSERT_TRUE(code.ok()) << code.message();
  EXPECT_EQ(*code, 7);
  code = supervisor.run({"penstock-no-such-program"});
  EXPECT_EQ(code.code(), Error::kNotFound);
  EXPECT_NE(code.message().find("cannot run penstock-no-such-program"), std::string::npos) << code.message();
}

TEST_F(SupervisorTest, AProcessThatEndsAtStartIsAFailureWithItsLog) {
  config_.router.admin = "127.0.0.1:1";  // nobody listens
  {
    Supervisor supervisor(
        config_, with("test \"$5\" = d && { echo no such model; exit 3; }; exec sleep 1000"), progress_);
    const Status started = supervisor.start();
    ASSERT_FALSE(started.ok());
    EXPECT_EQ(started.message(),
              "d exited with code 3; its last log lines (" + dir_ + "/d.log):\n    no such model\n");
  }
  expect_nothing_runs();
}

TEST_F(SupervisorTest, NotReadyInTimeIsAFailure) {
  config_.router.admin = "127.0.0.1:1";
  SupervisorOptions options = with("echo waiting; exec sleep 1000");
  options.ready_timeout = Duration::from_ms(200);
  {
    Supervisor supervisor(config_, options, progress_);
    const Status started = supervisor.start();
    EXPECT_EQ(started.code(), Error::kDeadlineExceeded);
  }
  expect_nothing_runs();
}

TEST_F(SupervisorTest, ANodeThatDiesLaterIsReportedAndTheRestServes) {
  LocalServer admin({kReady});
  config_.router.admin = admin.address().text();
  Supervisor supervisor(config_, with("test \"$5\" = p && { sleep 0.3; exit 9; }; exec sleep 1000"),
                        progress_);
  ASSERT_TRUE(supervisor.start().ok());
  auto code = supervisor.run({"/bin/sh", "-c", "sleep 1; exit 0"});
  ASSERT_TRUE(code.ok()) << code.message();
  EXPECT_NE(progress_.str().find("p exited with code 9"), std::string::npos) << progress_.str();
  supervisor.stop();
  expect_nothing_runs();
}

TEST_F(SupervisorTest, ARouterThatDiesEndsIt) {
  LocalServer admin({kReady});
  config_.router.admin = admin.address().text();
  Supervisor supervisor(config_, with("test $1 = router && { sleep 0.3; exit 9; }; exec sleep 1000"),
                        progress_);
  ASSERT_TRUE(supervisor.start().ok());
  auto code = supervisor.serve();
  ASSERT_FALSE(code.ok());
  EXPECT_EQ(code.message().rfind("router exited with code 9", 0), 0U) << code.message();
  supervisor.stop();
  expect_nothing_runs();
}

// The signal comes while it serves; processes that ignore SIGTERM are killed when their time is over, and a
// second signal shortens that.
TEST_F(SupervisorTest, ASignalStopsAndASecondOneKills) {
  LocalServer admin({kReady});
  config_.router.admin = admin.address().text();
  config_.router.drain_timeout_ms = 3600000;
  Supervisor supervisor(config_, with("trap '' TERM; while :; do sleep 1; done"), progress_);
  ASSERT_TRUE(supervisor.start().ok());
  ::kill(::getpid(), SIGTERM);
  auto code = supervisor.serve();
  ASSERT_TRUE(code.ok());
  EXPECT_EQ(*code, 0);
  EXPECT_EQ(supervisor.signal(), SIGTERM);
  ::poll(nullptr, 0, 400);  // sooner it would count as the same signal
  ::kill(::getpid(), SIGINT);
  supervisor.stop();
  EXPECT_NE(progress_.str().find("killing router"), std::string::npos) << progress_.str();
  expect_nothing_runs();
}

}  // namespace
}  // namespace penstock::cli
