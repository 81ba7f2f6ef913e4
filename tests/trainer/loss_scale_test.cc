#include "trainer/loss_scale.h"

#include <gtest/gtest.h>

namespace penstock::trainer {
namespace {

TEST(LossScale, HalvesAfterHysteresisAndDoublesAfterCleanSteps) {
  LossScale scale({.start = 8, .growth_interval = 3, .hysteresis = 2});
  EXPECT_FALSE(scale.step(true));
  EXPECT_EQ(scale.scale(), 8);
  EXPECT_FALSE(scale.step(true));
  EXPECT_EQ(scale.scale(), 4);
  EXPECT_TRUE(scale.step(false));
  EXPECT_TRUE(scale.step(false));
  EXPECT_EQ(scale.scale(), 4);
  EXPECT_TRUE(scale.step(false));
  EXPECT_EQ(scale.scale(), 8);
}

TEST(LossScale, ABadStepStartsTheCountOfCleanOnesAgain) {
  LossScale scale({.start = 8, .growth_interval = 2, .hysteresis = 3});
  scale.step(false);
  scale.step(true);
  scale.step(false);
  EXPECT_EQ(scale.scale(), 8);
  scale.step(false);
  EXPECT_EQ(scale.scale(), 16);
}

TEST(LossScale, NeverFallsBelowOne) {
  LossScale scale({.start = 2, .growth_interval = 10, .hysteresis = 1});
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(scale.step(true));
  EXPECT_EQ(scale.scale(), 1);
}

TEST(LossScale, ARestoredOneGoesOnAsTheFirst) {
  const LossScaleConfig config{.start = 64, .growth_interval = 4, .hysteresis = 2};
  LossScale first(config);
  for (const bool bad : {true, false, false, true, false}) first.step(bad);
  LossScale second(config);
  second.restore(first.state());
  for (const bool bad : {true, false, false, false, false, true, true}) {
    first.step(bad);
    second.step(bad);
    EXPECT_EQ(second.scale(), first.scale());
  }
}

}  // namespace
}  // namespace penstock::trainer
