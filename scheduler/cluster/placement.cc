#include "scheduler/cluster/placement.h"

#include <cmath>

namespace penstock::scheduler {

namespace {

// Keeps apart nodes whose speeds are not measured: the emptier one first.
constexpr double kSecondsPerSequence = 1e-6;
constexpr double kTieShare = 1e-9;  // costs nearer than this are equal

int64_t kv_bytes(const Capability& capability, int32_t tokens) {
  const int64_t element = capability.kv_dtype == "f32" ? 4 : 2;
  return int64_t{2} * capability.layers * capability.kv_heads * capability.head_dim * element * tokens;
}

double decode_seconds(const ClusterNode& node, const PlacementRequest& request) {
  const int64_t running = node.decoding;
  const double step = node.decode_step_seconds(running + 1);
  const double others = static_cast<double>(running) * (step - node.decode_step_seconds(running));
  return request.output_expected * (step + (running > 0 ? others : 0));
}

// Keeps the cheapest; a candidate as cheap as the best replaces it with probability 1 / (candidates so far).
class Cheapest {
 public:
  explicit Cheapest(Rng& rng) : rng_(rng) {}
  void offer(const Placement& placement) {
    const double margin = best_ ? kTieShare * std::abs(best_->cost_s) : 0;
    if (!best_ || placement.cost_s < best_->cost_s - margin) {
      best_ = placement;
      ties_ = 1;
    } else if (placement.cost_s <= best_->cost_s + margin && rng_.below(++ties_) == 0) {
      best_ = placement;
    }
  }
  const std::optional<Placement>& best() const { return best_; }

 private:
  Rng& rng_;
  std::optional<Placement> best_;
  uint64_t ties_ = 0;
};

}  // namespace

Placement cost_of_pair(const ClusterNode& prefill, const ClusterNode& decode, double bytes_per_s,
                       const PlacementRequest& request) {
  const double own_s = prefill.prefill_seconds(request.tokens);
  const LinkSpeed link{bytes_per_s, 0};
  const int64_t bytes = kv_bytes(prefill.capability, request.tokens);
  const double exposed_s = exposed_transfer_seconds(link, bytes, own_s, prefill.capability.layers);
  Placement placement{prefill.id, decode.id, 0, 0};
  placement.first_token_s = prefill.prefill_seconds(prefill.prefill_tokens) + own_s;
  placement.cost_s =
      placement.first_token_s + exposed_s + decode_seconds(decode, request) +
      kSecondsPerSequence * static_cast<double>(prefill.sequences.size() + decode.sequences.size());
  return placement;
}

Placement cost_of_colocated(const ClusterNode& decode, const PlacementRequest& request) {
  const double own_s = decode.prefill_seconds(request.tokens);
  Placement placement{NodeId(), decode.id, 0, 0};
  placement.first_token_s = decode.prefill_seconds(decode.prefill_tokens) + own_s;
  placement.cost_s = placement.first_token_s + decode.decoding * own_s + decode_seconds(decode, request) +
                     kSecondsPerSequence * static_cast<double>(decode.sequences.size());
  return placement;
}

std::optional<Placement> choose_placement(const NodeTable& table, const PlacementRequest& request, Rng& rng) {
  Cheapest cheapest(rng);
  if (request.disaggregate != Disaggregate::kNever) {
    for (const auto& [ids, bytes_per_s] : table.pairs()) {
      const ClusterNode& prefill = *table.find(ids.first);
      const ClusterNode& decode = *table.find(ids.second);
      if (prefill.has_room_for(request.tokens) && decode.has_room_for(request.tokens))
        cheapest.offer(cost_of_pair(prefill, decode, bytes_per_s, request));
    }
  }
  if (request.disaggregate != Disaggregate::kAlways) {
    for (const auto& [id, node] : table.nodes())
      if (node.role == NodeRole::kDecode && node.has_room_for(request.tokens))
        cheapest.offer(cost_of_colocated(node, request));
  }
  return cheapest.best();
}

std::optional<RejectReason> why_unserviceable(const NodeTable& table, const PlacementRequest& request) {
  bool prefill = false, decode = false, decode_holds = false;
  for (const auto& [id, node] : table.nodes()) {
    if (node.draining) continue;
    (node.role == NodeRole::kPrefill ? prefill : decode) = true;
    if (node.role == NodeRole::kDecode && node.could_hold(request.tokens)) decode_holds = true;
  }
  if (!decode) return RejectReason::kNoDecodeNode;
  const bool colocated = request.disaggregate != Disaggregate::kAlways;
  if (colocated && decode_holds) return std::nullopt;
  if (request.disaggregate == Disaggregate::kNever) return RejectReason::kTooLong;
  if (!prefill) return colocated ? RejectReason::kTooLong : RejectReason::kNoPrefillNode;
  bool connected = false;
  for (const auto& [ids, bytes_per_s] : table.pairs()) {
    const ClusterNode& p = *table.find(ids.first);
    const ClusterNode& d = *table.find(ids.second);
    if (p.draining || d.draining) continue;
    connected = true;
    if (p.could_hold(request.tokens) && d.could_hold(request.tokens)) return std::nullopt;
  }
  return connected ? RejectReason::kTooLong : RejectReason::kNoPair;
}

}  // namespace penstock::scheduler
