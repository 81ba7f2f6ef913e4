// A cluster scheduler with shorthand for events and actions. For the tests of scheduler/cluster alone.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "scheduler/cluster/cluster_scheduler.h"

namespace penstock::scheduler {

inline Capability test_capability() {
  Capability c;
  c.model = "m";
  c.kv_dtype = "bf16";
  c.block_tokens = 16;
  c.layers = 4;
  c.kv_heads = 2;
  c.head_dim = 64;
  c.context_max = 4096;
  c.vocab = 1000;
  c.protocol = 1;
  return c;
}

inline NodeJoined joined(uint32_t id, NodeRole role, int32_t pool_blocks = 64) {
  NodeJoined event;
  event.node = NodeId(id);
  event.name = "node-" + std::to_string(id);
  event.role = role;
  event.capability = test_capability();
  event.capacity = {pool_blocks, 16, 512, 1000, 50, 400};
  return event;
}

template <typename Action>
std::vector<Action> all(const ClusterActions& actions) {
  std::vector<Action> found;
  for (const ClusterAction& action : actions)
    if (const auto* a = std::get_if<Action>(&action)) found.push_back(*a);
  return found;
}

// Prefill nodes 1 and 2, decode nodes 11 and 12, all connected; accounts are checked at every step.
class Cluster {
 public:
  explicit Cluster(const ClusterPolicy& policy = always()) : scheduler(policy) {}
  static ClusterPolicy always() {
    ClusterPolicy policy;
    policy.disaggregate = Disaggregate::kAlways;
    return policy;
  }

  ClusterActions send(const ClusterEvent& event) {
    ClusterActions actions = scheduler.step(now, event);
    scheduler.check_invariants();
    return actions;
  }
  ClusterActions after_ms(int64_t ms, const ClusterEvent& event = Tick{}) {
    now = now + Duration::from_ms(ms);
    return send(event);
  }
  void join(std::vector<uint32_t> prefill, std::vector<uint32_t> decode, int32_t pool_blocks = 64) {
    for (const uint32_t p : prefill)
      EXPECT_EQ(all<NodeAccepted>(send(joined(p, NodeRole::kPrefill, pool_blocks))).size(), 1u);
    for (const uint32_t d : decode)
      EXPECT_EQ(all<NodeAccepted>(send(joined(d, NodeRole::kDecode, pool_blocks))).size(), 1u);
    for (const uint32_t p : prefill)
      for (const uint32_t d : decode) send(PairUp{NodeId(p), NodeId(d), 1e9});
  }
  ClusterActions arrive(uint64_t id, int32_t prompt = 20, int32_t tokens_max = 10,
                        TimePoint deadline = TimePoint::max()) {
    return send(Arrival{SequenceId(id), prompt, tokens_max, deadline});
  }
  StartPrefill start(uint64_t id, int32_t prompt = 20, int32_t tokens_max = 10) {
    const auto starts = all<StartPrefill>(arrive(id, prompt, tokens_max));
    EXPECT_EQ(starts.size(), 1u);
    return starts.empty() ? StartPrefill{} : starts[0];
  }
  ClusterActions token(NodeId node, const StartPrefill& start, int32_t position,
                       EndReason end = EndReason::kNone) {
    return send(TokenArrived{node, start.sequence, start.epoch, position, 100 + position, end});
  }
  ClusterActions handoff_done(const StartPrefill& start) {
    return send(HandoffDone{start.prefill, start.sequence, start.epoch, 1 << 20, Duration::from_ms(1)});
  }

  ClusterScheduler scheduler;
  TimePoint now{1000000};
};

}  // namespace penstock::scheduler
