// Ranks as processes over real UCX. The parent never touches UCX, so that nothing of it is inherited.
#include "fabric/communicator_ucx.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <numeric>

#include "fabric/communicator_world.h"
#include "tests/fabric/child_process.h"
#include "tests/fabric/communicator_check.h"
#include "tests/fabric/free_port.h"

namespace penstock {
namespace {

std::vector<int> everybody(int size) {
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

using Body = std::function<std::string(Communicator&, Channel&)>;

// The ranks of one job; each sends what `body` returned.
class Job {
 public:
  Job(int size, const Body& body, Duration deadline = Duration::from_ms(10000),
      const std::vector<std::string>& environment = {}) {
    const uint16_t port = free_port();
    for (int rank = 0; rank < size; ++rank)
      ranks_.push_back(std::make_unique<ChildProcess>(
          [=](Channel& channel) {
            const RankEnvironment where{rank, size, "127.0.0.1", port};
            auto link = make_ucx_link(where, UcxOptions(), Duration::from_ms(20000));
            if (!link.ok()) return channel.send("link: " + link.message());
            const auto world = make_rank_world(std::move(*link), CommunicatorOptions{deadline});
            const auto group = world->make_group(0, everybody(size));
            const std::string outcome = body(**group, channel);
            channel.send(outcome.empty() ? "right" : outcome);
          },
          environment));
  }
  ChildProcess& rank(int index) { return *ranks_[static_cast<size_t>(index)]; }
  std::string outcome(int index) { return rank(index).channel().receive(40000).value_or("nothing came"); }

 private:
  std::vector<std::unique_ptr<ChildProcess>> ranks_;
};

std::string text_of(const Status& status) { return status.ok() ? "" : status.message(); }

std::string run_matrix(Communicator& group, Channel&) {
  for (const int64_t count : {0, 1, 7, 1000, 4096, 100003})
    for (const ElementType type : {ElementType::kF32, ElementType::kBf16, ElementType::kU8})
      if (std::string bad = check_operations(group, count, type); !bad.empty()) return bad;
  return check_operations(group, 1'500'007, ElementType::kF64);
}

void expect_right(int size, const std::vector<std::string>& environment) {
  Job job(size, run_matrix, Duration::from_ms(10000), environment);
  for (int rank = 0; rank < size; ++rank) {
    EXPECT_EQ(job.outcome(rank), "right") << size << " ranks";
    EXPECT_EQ(job.rank(rank).reap(), 0);
  }
}

class CommunicatorUcx : public testing::TestWithParam<int> {};

TEST_P(CommunicatorUcx, EveryOperationOverSharedMemory) { expect_right(GetParam(), {}); }
TEST_P(CommunicatorUcx, EveryOperationOverTcp) { expect_right(GetParam(), {"UCX_TLS=tcp,self"}); }
INSTANTIATE_TEST_SUITE_P(Ranks, CommunicatorUcx, testing::Values(1, 2, 4));

// All ranks reduce until something ends it.
std::string reduce_for_ever(Communicator& group, Channel& channel) {
  std::vector<float> data(300000);
  if (const Status first = group.barrier(); !first.ok()) return first.message();
  channel.send("running");
  for (;;)
    if (const Status status = group.all_reduce(data.data(), 300000, ElementType::kF32); !status.ok())
      return status.message() +
             (text_of(group.barrier()) == status.message() ? "" : " (then something else)");
}

void expect_named_after(int signal_number, const std::vector<std::string>& environment) {
  Job job(4, reduce_for_ever, Duration::from_ms(1000), environment);
  for (int rank = 0; rank < 4; ++rank) ASSERT_EQ(job.outcome(rank), "running");
  job.rank(2).signal(signal_number);
  for (const int rank : {0, 1, 3}) {
    const std::string outcome = job.outcome(rank);
    EXPECT_NE(outcome.find("rank 2"), std::string::npos) << outcome;
    EXPECT_EQ(outcome.find("something else"), std::string::npos) << outcome;
    EXPECT_EQ(job.rank(rank).reap(), 0);  // and its process ends as it should
  }
}

TEST(CommunicatorUcxFaults, AKilledRankIsNamedByAllOthers) { expect_named_after(SIGKILL, {}); }
TEST(CommunicatorUcxFaults, AStoppedRankIsNamedByAllOthers) { expect_named_after(SIGSTOP, {}); }
TEST(CommunicatorUcxFaults, AKilledRankIsNamedOverTcp) { expect_named_after(SIGKILL, {"UCX_TLS=tcp,self"}); }
TEST(CommunicatorUcxFaults, AStoppedRankIsNamedOverTcp) { expect_named_after(SIGSTOP, {"UCX_TLS=tcp,self"}); }

TEST(CommunicatorUcxFaults, DifferentCallsNameBoth) {
  Job job(3, [](Communicator& group, Channel&) {
    std::vector<float> data(100000);
    if (group.rank() == 1) return text_of(group.all_gather(data.data(), 100000, 40000, ElementType::kF32));
    return text_of(group.all_reduce(data.data(), 99999, ElementType::kF32));
  });
  for (int rank = 0; rank < 3; ++rank) {
    const std::string outcome = job.outcome(rank);
    EXPECT_NE(outcome.find("rank 1"), std::string::npos) << outcome;
    EXPECT_NE(outcome.find("all_reduce(sum) of 99999 f32"), std::string::npos) << outcome;
    EXPECT_NE(outcome.find("all_gather of 100000 f32"), std::string::npos) << outcome;
  }
}

}  // namespace
}  // namespace penstock
