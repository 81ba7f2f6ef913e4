#include "sim/scenario.h"

#include <algorithm>

namespace penstock::sim {

namespace {

constexpr int32_t kBlockTokens = 8;
constexpr Duration kArrivalsLast = Duration::from_ms(10000);
constexpr Duration kBurstLasts = Duration::from_ms(300);

bool one_in(Rng& rng, uint64_t n) { return rng.below(n) == 0; }
int32_t draw(Rng& rng, int64_t lo, int64_t hi) { return static_cast<int32_t>(rng.between(lo, hi)); }

NodePlan draw_node(Rng& rng, NodeRole role) {
  NodePlan node;
  node.role = role;
  node.batch.block_tokens = kBlockTokens;
  node.batch.pool_blocks = draw(rng, 20, 48);  // small enough that preemption and credits matter
  node.batch.sequences_max = draw(rng, 3, 12);
  node.batch.batch_tokens_max = draw(rng, 24, 64);
  node.batch.waiting_max = 64;
  node.batch.context_max = 160;
  node.batch.reserve_lead_tokens = draw(rng, 0, 64);
  // Device types differ by up to a factor of four.
  node.prefill_tokens_per_s = 400.0 * draw(rng, 1, 4);
  node.decode_b1_tokens_per_s = 20.0 * draw(rng, 1, 4);
  node.decode_bmax_tokens_per_s = node.decode_b1_tokens_per_s * node.batch.sequences_max / draw(rng, 1, 3);
  node.link_bytes_per_s = 1e6 * draw(rng, 1, 20);
  return node;
}

RequestPlan draw_request(Rng& rng, uint64_t id, bool bursts) {
  RequestPlan request;
  request.sequence = SequenceId(id);
  request.arrives = TimePoint{} + Duration{rng.between(0, kArrivalsLast.us)};
  if (bursts) {
    const int64_t burst_us = kArrivalsLast.us / 4 * rng.between(0, 3);
    request.arrives = TimePoint{} + Duration{burst_us + rng.between(0, kBurstLasts.us)};
  }
  request.prompt_tokens = one_in(rng, 4) ? draw(rng, 40, 110) : draw(rng, 1, 40);
  request.tokens_max = one_in(rng, 8) ? draw(rng, 1, 2) : draw(rng, 2, 48);
  const auto position = [&] { return request.prompt_tokens + draw(rng, 0, request.tokens_max - 1); };
  if (one_in(rng, 3)) request.stop_position = position();
  if (one_in(rng, 8)) request.string_position = position();
  if (one_in(rng, 10)) request.leaves = request.arrives + Duration{rng.between(0, 3'000'000)};
  if (one_in(rng, 5)) request.deadline = request.arrives + Duration{rng.between(50'000, 5'000'000)};
  return request;
}

FaultPlan draw_fault(Rng& rng, const Scenario& scenario) {
  FaultPlan fault;
  fault.kind = static_cast<FaultKind>(rng.below(kFaultKinds));
  if (one_in(rng, 3))
    fault.kind = one_in(rng, 2) ? FaultKind::kCrash : FaultKind::kPause;  // the worst, more often
  fault.starts = TimePoint{} + Duration{rng.between(500'000, kArrivalsLast.us)};
  fault.lasts = Duration{rng.between(50'000, one_in(rng, 3) ? 6'000'000 : 1'500'000)};
  fault.node = static_cast<int>(rng.below(scenario.nodes.size()));
  fault.strength = 0.05 + 0.4 * rng.uniform();
  if (fault.kind == FaultKind::kSlowDevice || fault.kind == FaultKind::kSlowLink)
    fault.strength = 2 + 8 * rng.uniform();
  if (fault.kind == FaultKind::kPartition) {
    fault.node = static_cast<int>(rng.below(static_cast<uint64_t>(scenario.prefill_nodes)));
    const auto decode_nodes = scenario.nodes.size() - static_cast<size_t>(scenario.prefill_nodes);
    fault.other = scenario.prefill_nodes + static_cast<int>(rng.below(decode_nodes));
  }
  return fault;
}

}  // namespace

Scenario draw_scenario(uint64_t seed) {
  Rng rng(mix64(seed) ^ 0x73696d756c617465ULL);
  Scenario scenario;
  scenario.seed = seed;
  scenario.policy.seed = seed;
  scenario.policy.model = "simulated";
  scenario.policy.queue_len_max = draw(rng, 8, 64);
  scenario.policy.attempts_max = 40;  // more than the faults can cause
  const uint64_t mode = rng.below(10);
  scenario.policy.disaggregate = mode < 5   ? Disaggregate::kAlways
                                 : mode < 9 ? Disaggregate::kAuto
                                            : Disaggregate::kNever;
  scenario.prefill_nodes = draw(rng, 2, 4);
  const int32_t decode_nodes = draw(rng, 2, 4);
  for (int32_t i = 0; i < scenario.prefill_nodes; ++i)
    scenario.nodes.push_back(draw_node(rng, NodeRole::kPrefill));
  for (int32_t i = 0; i < decode_nodes; ++i) scenario.nodes.push_back(draw_node(rng, NodeRole::kDecode));
  const bool bursts = one_in(rng, 2);
  const int32_t requests = draw(rng, 200, 260);
  for (int32_t i = 0; i < requests; ++i)
    scenario.requests.push_back(draw_request(rng, static_cast<uint64_t>(i) + 1, bursts));
  std::sort(scenario.requests.begin(), scenario.requests.end(),
            [](const RequestPlan& a, const RequestPlan& b) { return a.arrives < b.arrives; });
  const int32_t faults = draw(rng, 3, 8);
  for (int32_t i = 0; i < faults; ++i) scenario.faults.push_back(draw_fault(rng, scenario));
  std::sort(scenario.faults.begin(), scenario.faults.end(),
            [](const FaultPlan& a, const FaultPlan& b) { return a.starts < b.starts; });
  return scenario;
}

}  // namespace penstock::sim
