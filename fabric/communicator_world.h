// All ranks of a job as one of them sees it: hands out groups, drives their operations, watches the others.
//
// One thread owns a RankWorld and all its Communicators. It knows three ends of patience: a peer that the
// backend reports dead; one that owes something and has been silent for the deadline though asked with pings;
// one that answers pings but has not done its part in three deadlines (it waits for something else). Only
// time in which this rank itself was attentive counts. Whoever finds one tells all others, so that all name
// the same rank.
#pragma once

#include <memory>
#include <vector>

#include "base/time.h"
#include "fabric/communicator.h"
#include "fabric/communicator_point_to_point.h"

namespace penstock {

struct CommunicatorOptions {
  Duration deadline = Duration::from_ms(10000);
};

class RankWorld {
 public:
  virtual ~RankWorld() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // The group of these world ranks, in this order; the own rank is one of them. Members give it the same
  // `id`, 0 to 255, which this rank uses for no other group.
  [[nodiscard]] virtual Result<std::unique_ptr<Communicator>> make_group(int id,
                                                                         std::vector<int> members) = 0;
};

[[nodiscard]] std::unique_ptr<RankWorld> make_rank_world(std::unique_ptr<PointToPoint> link,
                                                         const CommunicatorOptions& options);

}  // namespace penstock
