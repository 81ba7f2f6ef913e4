#include "trainer/pipeline_schedule.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace penstock::trainer {
namespace {

using Kind = PipelineAction::Kind;

// The k-th forward or backward of a stage. Micro-batches go in groups of `stages`: a group passes chunk 0,
// then chunk 1 and so on, before the next group starts; backwards see the chunks the other way round.
PipelineAction nth(const PipelineShape& shape, Kind kind, int k) {
  if (shape.chunks == 1) return {kind, k, 0};
  const int round = shape.stages * shape.chunks;
  const int chunk = k % round / shape.stages;
  return {kind, k / round * shape.stages + k % shape.stages,
          kind == Kind::kForward ? chunk : shape.chunks - 1 - chunk};
}

}  // namespace

Status validate(const PipelineShape& shape) {
  const std::pair<const char*, int> counts[] = {
      {"stages", shape.stages}, {"chunks", shape.chunks}, {"micro-batches", shape.micro_batches}};
  for (const auto& [name, count] : counts) {
    if (count < 1)
      return fail(Error::kInvalidArgument,
                  "pipeline: " + std::to_string(count) + " " + name + ": needs 1 or more");
  }
  if (shape.chunks > 1 && shape.micro_batches % shape.stages != 0) {
    return fail(Error::kInvalidArgument, "pipeline: interleaving needs micro-batches in multiples of the " +
                                             std::to_string(shape.stages) + " stages, not " +
                                             std::to_string(shape.micro_batches));
  }
  return {};
}

std::vector<PipelineAction> one_forward_one_backward(const PipelineShape& shape, int stage) {
  CHECK(validate(shape).ok());
  CHECK(stage >= 0 && stage < shape.stages);
  const int total = shape.micro_batches * shape.chunks;
  const int behind = shape.stages - 1 - stage;
  const int fill =
      std::min(total, shape.chunks == 1 ? behind : 2 * behind + (shape.chunks - 1) * shape.stages);
  std::vector<PipelineAction> schedule;
  for (int k = 0; k < fill; ++k) schedule.push_back(nth(shape, Kind::kForward, k));
  for (int k = fill; k < total; ++k) {
    schedule.push_back(nth(shape, Kind::kForward, k));
    schedule.push_back(nth(shape, Kind::kBackward, k - fill));
  }
  for (int k = total - fill; k < total; ++k) schedule.push_back(nth(shape, Kind::kBackward, k));
  return schedule;
}

int activations_in_flight(const std::vector<PipelineAction>& schedule) {
  int now = 0, most = 0;
  for (const PipelineAction& action : schedule) {
    now += action.kind == Kind::kForward ? 1 : -1;
    most = std::max(most, now);
  }
  return most;
}

double bubble(const PipelineShape& shape) {
  return static_cast<double>(shape.stages - 1) / (static_cast<double>(shape.chunks) * shape.micro_batches);
}

}  // namespace penstock::trainer
