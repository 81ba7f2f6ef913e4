// Pipeline schedules as data: what one stage computes, in order.
//
// Pure. Sends and receives follow from the list: a forward's input comes from the part of the model before
// it, a backward's from the part after it. With v chunks a stage holds v parts: stage s, chunk c is part c p
// + s of p v, so a micro-batch passes the stages v times.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace penstock::trainer {

struct PipelineAction {
  enum class Kind : uint8_t { kForward, kBackward };
  Kind kind = Kind::kForward;
  int micro_batch = 0;
  int chunk = 0;
  friend bool operator==(const PipelineAction&, const PipelineAction&) = default;
};

struct PipelineShape {
  int stages = 1;
  int chunks = 1;  // per stage; above 1: interleaved
  int micro_batches = 1;
};

// kInvalidArgument says what is wrong: a number below 1, or interleaving with micro-batches that `stages`
// does not divide, which would leave stages waiting for each other in rings.
Status validate(const PipelineShape& shape);

// One forward, one backward (Narayanan et al., SOSP'19; interleaved: SC'21). Each stage first fills with as
// many forwards as keep the stages after it busy, then takes turns, then drains. shape must be valid,
// 0 <= stage < stages.
std::vector<PipelineAction> one_forward_one_backward(const PipelineShape& shape, int stage);

// The most micro-batch parts whose activations a stage holds at once.
int activations_in_flight(const std::vector<PipelineAction>& schedule);

// Idle time of a stage over its work, in the limit of equal stages: (p - 1) / (v m).
double bubble(const PipelineShape& shape);

}  // namespace penstock::trainer
