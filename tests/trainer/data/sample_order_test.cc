#include "trainer/data/sample_order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

namespace penstock::trainer {
namespace {

SampleOrder mixture(uint64_t seed = 7) {
  return SampleOrder::make(seed, {{"books", 101, 5}, {"code", 37, 3}, {"web", 1000, 0.5}}).value();
}

std::vector<Sample> take(SampleOrder& order, int count) {
  std::vector<Sample> samples;
  for (int i = 0; i < count; ++i) samples.push_back(order.next());
  return samples;
}

TEST(SampleOrder, EachEpochOfASourceSeesEverySequenceOnceInAnOrderOfItsOwn) {
  SampleOrder order = mixture();
  std::map<std::pair<int, int64_t>, std::vector<int64_t>> epochs;
  for (const Sample& sample : take(order, 3000))
    epochs[{sample.source, sample.epoch}].push_back(sample.sequence);
  for (const auto& [key, sequences] : epochs) {
    const auto whole = static_cast<size_t>(order.sources()[static_cast<size_t>(key.first)].sequences);
    const std::set<int64_t> distinct(sequences.begin(), sequences.end());
    EXPECT_EQ(distinct.size(), sequences.size()) << "a sequence twice in epoch " << key.second;
    const auto next = epochs.find({key.first, key.second + 1});
    if (next == epochs.end()) continue;
    EXPECT_EQ(sequences.size(), whole);
    EXPECT_NE(sequences, next->second) << "two epochs in one order";
  }
}

TEST(SampleOrder, WeightsHoldAfterAnyNumberOfSamples) {
  SampleOrder order = mixture();
  std::vector<int> taken(3);
  const double weights[] = {5 / 8.5, 3 / 8.5, 0.5 / 8.5};
  for (int i = 1; i <= 5000; ++i) {
    ++taken[static_cast<size_t>(order.next().source)];
    for (size_t s = 0; s < 3; ++s)
      ASSERT_LT(std::abs(taken[s] - weights[s] * i), 3) << "source " << s << " after " << i;
  }
}

// Kill and resume, and ranks that start in the middle.
TEST(SampleOrder, SeekingGoesOnWhereASequentialReaderIs) {
  SampleOrder whole = mixture();
  const std::vector<Sample> all = take(whole, 2000);
  SampleOrder other = mixture();
  for (const int64_t at : {0, 1, 999, 1500, 3, 1999}) {
    other.seek(at);
    EXPECT_EQ(other.position(), at);
    EXPECT_EQ(other.next(), all[static_cast<size_t>(at)]);
  }
  SampleOrder one = SampleOrder::make(3, {{"only", 10, 1}}).value();
  const std::vector<Sample> alone = take(one, 35);
  one.seek(27);
  EXPECT_EQ(one.next(), alone[27]);
  EXPECT_EQ(alone[27].epoch, 2);
}

TEST(SampleOrder, TheSeedChangesTheOrderWithinSourcesOnly) {
  SampleOrder a = mixture(1), b = mixture(2);
  int equal = 0;
  for (int i = 0; i < 500; ++i) {
    const Sample x = a.next(), y = b.next();
    ASSERT_EQ(x.source, y.source);
    equal += x == y;
  }
  EXPECT_LT(equal, 30);
}

TEST(SampleOrder, WhatCannotBeIsNamed) {
  EXPECT_EQ(SampleOrder::make(1, {}).message(), "data: no source: name at least one");
  EXPECT_EQ(SampleOrder::make(1, {{"a", 0, 1}}).message(), "data: source a holds no whole sequence");
  EXPECT_EQ(SampleOrder::make(1, {{"a", 1, 0}}).message(),
            "data: the weight of source a needs a positive number");
  EXPECT_EQ(SampleOrder::make(1, {{"a", 1, NAN}}).message(),
            "data: the weight of source a needs a positive number");
}

}  // namespace
}  // namespace penstock::trainer
