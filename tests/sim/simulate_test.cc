#include "sim/simulate.h"

#include <gtest/gtest.h>

namespace penstock::sim {
namespace {

TEST(Simulate, TheSameSeedGivesTheSameActions) {
  for (const uint64_t seed : {1, 2, 77}) {
    const WorldReport a = run_seed(seed), b = run_seed(seed);
    EXPECT_FALSE(a.violation.has_value());
    EXPECT_EQ(a.action_hash, b.action_hash);
    EXPECT_EQ(a.events, b.events);
    EXPECT_NE(a.action_hash, run_seed(seed + 1).action_hash);
  }
}

TEST(Simulate, TheSummaryCountsEverything) {
  const SeedsReport report = run_seeds(1, 4, 2);
  EXPECT_EQ(report.failure, "");
  EXPECT_EQ(report.seeds, 4u);
  EXPECT_GE(report.sum.requests, 800u);
  EXPECT_EQ(report.sum.requests, report.sum.finished + report.sum.rejected + report.sum.failed);
  uint64_t faults = 0;
  for (const uint64_t count : report.sum.faults) faults += count;
  EXPECT_GE(faults, 12u);
  const std::string line = summary_line(report);
  EXPECT_EQ(line.rfind("4 seeds held: ", 0), 0u);
  EXPECT_EQ(line.find('\n'), std::string::npos);
}

// The sum does not depend on how the seeds are shared out.
TEST(Simulate, ProcessesOnlyShareTheWork) {
  const SeedsReport one = run_seeds(10, 6, 1), three = run_seeds(10, 6, 3);
  EXPECT_EQ(one.sum.action_hash, three.sum.action_hash);
  EXPECT_EQ(one.sum.tokens, three.sum.tokens);
}

}  // namespace
}  // namespace penstock::sim
