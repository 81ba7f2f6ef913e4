#include "trainer/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace penstock::trainer {
namespace {

LrConfig config(LrShape shape) {
  return {.shape = shape, .peak = 1, .lowest = 0.1, .warmup_steps = 4, .total_steps = 20};
}

TEST(LrSchedule, WarmUpRisesToThePeak) {
  for (const LrShape shape :
       {LrShape::kConstant, LrShape::kLinear, LrShape::kCosine, LrShape::kInverseSqrt, LrShape::kWsd}) {
    const LrConfig c = config(shape);
    EXPECT_DOUBLE_EQ(learning_rate(c, 0), 0.25);
    EXPECT_DOUBLE_EQ(learning_rate(c, 3), 1);
  }
}

TEST(LrSchedule, EachShapeAfterWarmUp) {
  EXPECT_DOUBLE_EQ(learning_rate(config(LrShape::kConstant), 1000), 1);
  EXPECT_DOUBLE_EQ(learning_rate(config(LrShape::kLinear), 4), 1);
  EXPECT_DOUBLE_EQ(learning_rate(config(LrShape::kLinear), 12), 0.55);
  EXPECT_DOUBLE_EQ(learning_rate(config(LrShape::kLinear), 20), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(config(LrShape::kCosine), 4),
                   1);  // the first step after warm-up is at the peak too
  EXPECT_DOUBLE_EQ(learning_rate(config(LrShape::kCosine), 12), 0.55);
  EXPECT_DOUBLE_EQ(learning_rate(config(LrShape::kCosine), 19), 0.1 + 0.45 * (1 + std::cos(M_PI * 15 / 16)));
  EXPECT_DOUBLE_EQ(learning_rate(config(LrShape::kCosine), 500), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(config(LrShape::kInverseSqrt), 15), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(config(LrShape::kInverseSqrt), 1000000), 0.1);
}

TEST(LrSchedule, WsdIsConstantThenAnneals) {
  LrConfig c = config(LrShape::kWsd);
  c.decay_steps = 8;
  EXPECT_DOUBLE_EQ(learning_rate(c, 11), 1);
  EXPECT_DOUBLE_EQ(learning_rate(c, 12), 1);
  EXPECT_DOUBLE_EQ(learning_rate(c, 14), 0.1 + 0.9 * 0.75);
  c.decay = DecayShape::kSqrt;
  EXPECT_DOUBLE_EQ(learning_rate(c, 14), 0.1 + 0.9 * 0.5);
  c.decay = DecayShape::kCosine;
  EXPECT_DOUBLE_EQ(learning_rate(c, 16), 0.55);
  for (const DecayShape shape : {DecayShape::kLinear, DecayShape::kSqrt, DecayShape::kCosine}) {
    c.decay = shape;
    EXPECT_DOUBLE_EQ(learning_rate(c, 20), 0.1);
  }
  c.decay_steps = 0;
  EXPECT_DOUBLE_EQ(learning_rate(c, 19), 1);
}

TEST(LrSchedule, NoWarmUpStartsAtThePeak) {
  for (const LrShape shape :
       {LrShape::kConstant, LrShape::kLinear, LrShape::kCosine, LrShape::kInverseSqrt, LrShape::kWsd}) {
    LrConfig c = config(shape);
    c.warmup_steps = 0;
    EXPECT_DOUBLE_EQ(learning_rate(c, 0), 1);
  }
}

TEST(LrSchedule, WhatCannotBeIsNamed) {
  LrConfig c = config(LrShape::kWsd);
  EXPECT_TRUE(validate(c).ok());
  c.decay_steps = 17;
  EXPECT_EQ(validate(c).message(), "schedule.decay_steps: needs 0 to 16, what the warm-up leaves of the run");
  c.warmup_steps = 30;
  EXPECT_EQ(validate(c).message(), "schedule.warmup_steps: 30 is more than the 20 steps of the run");
  c = config(LrShape::kCosine);
  c.peak = NAN;
  EXPECT_EQ(validate(c).message(), "schedule.peak: needs a positive number");
  c = config(LrShape::kCosine);
  c.lowest = 2;
  EXPECT_EQ(validate(c).message(), "schedule.lowest: needs a number from 0 to the peak");
  c = config(LrShape::kLinear);
  c.total_steps = 0;
  EXPECT_EQ(validate(c).message(), "schedule.total_steps: needs 1 or more for a schedule that decays");
}

}  // namespace
}  // namespace penstock::trainer
