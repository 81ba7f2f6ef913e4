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

TEST(Simulate, ARecordReplaysToTheSameHash) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<uint8_t> record;
    const WorldReport run = run_seed(seed, &record);
    const auto replay = replay_record(record);
    ASSERT_TRUE(replay.ok()) << replay.message();
    EXPECT_EQ(replay->action_hash, run.action_hash);
    EXPECT_GT(replay->events, 1000u);
  }
}

TEST(Simulate, ADamagedRecordIsAnError) {
  std::vector<uint8_t> record;
  EXPECT_FALSE(run_seed(5, &record).violation.has_value());
  EXPECT_EQ(replay_record({}).code(), Error::kCorrupt);
  EXPECT_EQ(replay_record(std::span<const uint8_t>(record).first(record.size() - 3)).code(), Error::kCorrupt);
  record[0] ^= 1;
  EXPECT_EQ(replay_record(record).code(), Error::kCorrupt);
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
