#include "trainer/pipeline_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace penstock::trainer {
namespace {

using Kind = PipelineAction::Kind;

std::vector<PipelineShape> shapes() {
  std::vector<PipelineShape> all;
  for (const int stages : {1, 2, 3, 4, 8}) {
    for (const int chunks : {1, 2, 3}) {
      for (const int m : {1, 2, 3, 4, 6, 8, 16, 24}) {
        const PipelineShape shape{stages, chunks, m};
        if (validate(shape).ok()) all.push_back(shape);
      }
    }
  }
  return all;
}

std::string name_of(const PipelineShape& s) {
  return std::to_string(s.stages) + " stages, " + std::to_string(s.chunks) + " chunks, " +
         std::to_string(s.micro_batches) + " micro-batches";
}

// Runs all stages side by side; a forward of a part takes 1, a backward 2. Returns when the last action ends,
// or -1 where the stages wait for each other for ever.
int64_t run(const PipelineShape& shape) {
  const int parts = shape.stages * shape.chunks;
  std::map<std::tuple<Kind, int, int>, int64_t> ended;  // (kind, micro-batch, part)
  std::vector<std::vector<PipelineAction>> schedules;
  for (int s = 0; s < shape.stages; ++s) schedules.push_back(one_forward_one_backward(shape, s));
  std::vector<size_t> next(schedules.size());
  std::vector<int64_t> free_at(schedules.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < shape.stages; ++s) {
      if (next[s] == schedules[s].size()) continue;
      const PipelineAction& a = schedules[s][next[s]];
      const int part = a.chunk * shape.stages + s;
      int64_t ready = 0;
      const auto need = [&](Kind kind, int needed_part) {
        const auto found = ended.find({kind, a.micro_batch, needed_part});
        ready = found == ended.end() || ready < 0 ? -1 : std::max(ready, found->second);
      };
      if (a.kind == Kind::kForward && part > 0) need(Kind::kForward, part - 1);
      if (a.kind == Kind::kBackward) need(Kind::kForward, part);
      if (a.kind == Kind::kBackward && part + 1 < parts) need(Kind::kBackward, part + 1);
      if (ready < 0) continue;
      free_at[s] = std::max(free_at[s], ready) + (a.kind == Kind::kForward ? 1 : 2);
      ended[{a.kind, a.micro_batch, part}] = free_at[s];
      ++next[s];
      moved = true;
    }
  }
  for (int s = 0; s < shape.stages; ++s)
    if (next[s] != schedules[s].size()) return -1;
  return *std::max_element(free_at.begin(), free_at.end());
}

TEST(PipelineSchedule, EachPartOfEachMicroBatchGoesForwardThenBackwardOnce) {
  for (const PipelineShape& shape : shapes()) {
    for (int stage = 0; stage < shape.stages; ++stage) {
      SCOPED_TRACE(name_of(shape) + ", stage " + std::to_string(stage));
      std::map<std::pair<int, int>, int> seen;
      for (const PipelineAction& a : one_forward_one_backward(shape, stage)) {
        int& state = seen[{a.micro_batch, a.chunk}];
        ASSERT_EQ(state, a.kind == Kind::kForward ? 0 : 1);
        ++state;
      }
      ASSERT_EQ(seen.size(), static_cast<size_t>(shape.micro_batches * shape.chunks));
      for (const auto& [key, state] : seen) ASSERT_EQ(state, 2);
    }
  }
}

TEST(PipelineSchedule, NoStageWaitsForEver) {
  for (const PipelineShape& shape : shapes()) EXPECT_GT(run(shape), 0) << name_of(shape);
}

TEST(PipelineSchedule, TheBubbleIsWhatTheFormulaSays) {
  for (const PipelineShape& shape : shapes()) {
    const int64_t ideal = int64_t{3} * shape.micro_batches * shape.chunks;
    EXPECT_DOUBLE_EQ(static_cast<double>(run(shape) - ideal) / static_cast<double>(ideal), bubble(shape))
        << name_of(shape);
  }
}

TEST(PipelineSchedule, ActivationsInFlightFallFromStageToStage) {
  for (const PipelineShape& shape : shapes()) {
    if (shape.chunks > 1) continue;
    for (int stage = 0; stage < shape.stages; ++stage) {
      EXPECT_EQ(activations_in_flight(one_forward_one_backward(shape, stage)),
                std::min(shape.stages - stage, shape.micro_batches))
          << name_of(shape) << ", stage " << stage;
    }
  }
  // Interleaved: the fill and the forward after it.
  EXPECT_EQ(activations_in_flight(one_forward_one_backward({4, 2, 8}, 0)), 2 * 3 + 4 + 1);
  EXPECT_EQ(activations_in_flight(one_forward_one_backward({4, 2, 8}, 3)), 4 + 1);
}

TEST(PipelineSchedule, TheTextbookCase) {
  const auto f = [](int m) { return PipelineAction{Kind::kForward, m, 0}; };
  const auto b = [](int m) { return PipelineAction{Kind::kBackward, m, 0}; };
  EXPECT_EQ(one_forward_one_backward({3, 1, 4}, 0),
            (std::vector<PipelineAction>{f(0), f(1), f(2), b(0), f(3), b(1), b(2), b(3)}));
  EXPECT_EQ(one_forward_one_backward({3, 1, 4}, 2),
            (std::vector<PipelineAction>{f(0), b(0), f(1), b(1), f(2), b(2), f(3), b(3)}));
}

TEST(PipelineSchedule, WhatCannotBeIsNamed) {
  EXPECT_EQ(validate({0, 1, 1}).message(), "pipeline: 0 stages: needs 1 or more");
  EXPECT_EQ(validate({2, 1, 0}).message(), "pipeline: 0 micro-batches: needs 1 or more");
  EXPECT_EQ(validate({4, 2, 6}).message(),
            "pipeline: interleaving needs micro-batches in multiples of the 4 stages, not 6");
}

}  // namespace
}  // namespace penstock::trainer
