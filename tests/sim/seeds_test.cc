// Seeds that once failed, and a fresh range: every invariant holds in each.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "sim/simulate.h"

namespace penstock::sim {
namespace {

TEST(Seeds, ThoseThatOnceFailedHold) {
  std::ifstream file(PENSTOCK_SEEDS_FILE);
  ASSERT_TRUE(file.good()) << PENSTOCK_SEEDS_FILE;
  std::string line;
  int count = 0;
  while (std::getline(file, line)) {
    std::istringstream in(line);
    uint64_t seed = 0;
    if (line.empty() || line[0] == '#' || !(in >> seed)) continue;
    const SeedsReport report = run_seeds(seed, 1, 1);
    EXPECT_EQ(report.failure, "") << "seed " << seed;
    ++count;
  }
  EXPECT_GT(count, 0);
}

TEST(Seeds, AThousandHold) {
  const SeedsReport report = run_seeds(1, 1000, 2);
  EXPECT_EQ(report.failure, "") << "seed " << report.failed_seed;
  EXPECT_EQ(report.seeds, 1000u);
}

}  // namespace
}  // namespace penstock::sim
