// Bugs planted in the scheduler: the seeds must catch every one, and nothing without one.
#include <gtest/gtest.h>

#include <iostream>

#include "scheduler/canary.h"
#include "sim/replay.h"
#include "sim/simulate.h"

namespace penstock::sim {
namespace {

using scheduler::Canary;

class CanaryTest : public ::testing::TestWithParam<Canary> {
 protected:
  void TearDown() override { scheduler::canary = Canary::kNone; }
};

TEST_P(CanaryTest, IsCaught) {
  scheduler::canary = GetParam();
  const SeedsReport report = run_seeds(1, 300, 1);
  EXPECT_NE(report.failure, "") << "300 seeds did not notice";
  std::cout << "caught by seed " << report.failed_seed << ": " << report.failure << '\n';
}

INSTANTIATE_TEST_SUITE_P(All, CanaryTest,
                         ::testing::Values(Canary::kFreeLeasedOnAbort, Canary::kFreeSourceOnAbort,
                                           Canary::kSkipAfterPreemption, Canary::kIgnoreHandoffEnded,
                                           Canary::kForgetDeduplication, Canary::kAcceptStaleEpoch,
                                           Canary::kIgnoreGap, Canary::kForgetAborts,
                                           Canary::kLoseQueuedReplay, Canary::kDoubleFinish));

// The bridge of DESIGN 2: a record of the sound scheduler shows where a changed one decides otherwise.
TEST(ReplayCanary, ARecordFindsAChangedScheduler) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    std::vector<uint8_t> record;
    scheduler::canary = Canary::kNone;
    EXPECT_FALSE(run_seed(seed, &record).violation.has_value());
    EXPECT_EQ(replay_record(record)->difference, "");
    scheduler::canary = Canary::kForgetAborts;
    const auto replay = replay_record(record);
    scheduler::canary = Canary::kNone;
    ASSERT_TRUE(replay.ok()) << replay.message();
    if (replay->difference.empty()) continue;
    ++found;
    EXPECT_EQ(replay->difference.rfind("event ", 0), 0u) << replay->difference;
  }
  EXPECT_GT(found, 0);
}

TEST(NoCanary, NothingIsCaughtWithoutABug) {
  scheduler::canary = Canary::kNone;
  EXPECT_EQ(run_seeds(1, 20, 1).failure, "");
}

}  // namespace
}  // namespace penstock::sim
