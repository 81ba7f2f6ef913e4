// Where a sequence should run: the pure choice, in seconds.
//
// Functions of the node table and one request; no state but the caller's random generator.
//
//   cost of a pair (P, D) = residual prefill of P + prefill here + exposed KV transfer + decode on D
//                         + what all who decode on D lose by one more in their batch
//   cost on D alone       = residual prefill of D + prefill here + decode on D
//                         + what all who decode on D lose by the prefill and by one more in their batch
// The last term of each is other people's time: without it a short prompt would always run on D.
#pragma once

#include <optional>

#include "base/rng.h"
#include "scheduler/cluster/cluster_events.h"
#include "scheduler/cluster/node_table.h"

namespace penstock::scheduler {

struct PlacementRequest {
  int32_t tokens = 0;           // to prefill
  int32_t output_expected = 0;  // still to generate
  Disaggregate disaggregate = Disaggregate::kAuto;
};

struct Placement {
  NodeId prefill;  // 0: colocated on `decode`
  NodeId decode;
  double cost_s = 0;
  double first_token_s = 0;  // projected time to the first token
};

// The cheapest placement with room now; equal costs are drawn from `rng`. Nothing when all are full.
[[nodiscard]] std::optional<Placement> choose_placement(const NodeTable& table,
                                                        const PlacementRequest& request, Rng& rng);

// Why no placement could ever be found among the present nodes, however empty; nothing when one could.
[[nodiscard]] std::optional<RejectReason> why_unserviceable(const NodeTable& table,
                                                            const PlacementRequest& request);

// Costs of one candidate, for tests and `penstock plan`.
[[nodiscard]] Placement cost_of_pair(const ClusterNode& prefill, const ClusterNode& decode,
                                     double bytes_per_s, const PlacementRequest& request);
[[nodiscard]] Placement cost_of_colocated(const ClusterNode& decode, const PlacementRequest& request);

}  // namespace penstock::scheduler
