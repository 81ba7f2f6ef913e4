// What one seed draws: the fleet, the requests, the faults. Plain values; nothing here runs.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/rng.h"
#include "base/time.h"
#include "scheduler/batch/batch_scheduler.h"
#include "scheduler/cluster/cluster_scheduler.h"

namespace penstock::sim {

// The token at a position is a pure function of (sequence, position), prompt included: a token that is
// skipped, repeated or computed from another sequence's state shows at once.
constexpr TokenId token_at(SequenceId sequence, int32_t position) {
  const uint64_t mixed = mix64(sequence.value() * 0x9e3779b97f4a7c15ULL + static_cast<uint32_t>(position));
  return static_cast<TokenId>(mixed >> 34);
}

struct RequestPlan {
  SequenceId sequence;
  TimePoint arrives;
  int32_t prompt_tokens = 1;
  int32_t tokens_max = 1;
  int32_t stop_position = -1;             // the token there is a stop id; -1: none
  int32_t string_position = -1;           // the router finds a stop string with the token there; -1: never
  TimePoint leaves = TimePoint::max();    // the client disconnects
  TimePoint deadline = TimePoint::max();  // latest start
};

enum class FaultKind : uint8_t {
  kCrash,        // the process dies; a new one starts later
  kRoleOutage,   // every node of one role dies at once
  kPause,        // stopped (SIGSTOP) and continued
  kLoss,         // messages of one node are lost for a while
  kDuplication,  // ... or arrive twice
  kReordering,   // ... or overtake each other
  kSlowDevice,   // steps take longer
  kSlowLink,     // KV writes take longer
  kPartition,    // one prefill and one decode node cannot reach each other
  kStepFailure,  // the engine fails one sequence of its next step
  kDrain,        // the node is drained, leaves and comes back
  kStranger,     // a node of another layout asks to join
};
constexpr int kFaultKinds = 12;
constexpr std::array<const char*, kFaultKinds> kFaultNames = {
    "crash",       "role_outage", "pause",     "loss",         "duplication", "reordering",
    "slow_device", "slow_link",   "partition", "step_failure", "drain",       "stranger"};

struct FaultPlan {
  FaultKind kind = FaultKind::kCrash;
  TimePoint starts;
  Duration lasts;
  int node = 0;         // index into the fleet: prefill nodes first
  int other = 0;        // kPartition: the decode node
  double strength = 0;  // probability or factor
};

struct NodePlan {
  NodeRole role = NodeRole::kPrefill;
  scheduler::BatchConfig batch;
  double prefill_tokens_per_s = 0, decode_b1_tokens_per_s = 0, decode_bmax_tokens_per_s = 0;
  double link_bytes_per_s = 0;
};

struct Scenario {
  uint64_t seed = 0;
  scheduler::ClusterPolicy policy;
  std::vector<NodePlan> nodes;  // prefill nodes first
  int prefill_nodes = 0;
  std::vector<RequestPlan> requests;  // by arrival
  std::vector<FaultPlan> faults;      // by start
};

// 200 to 260 requests, 2 to 4 nodes of each role, 3 to 8 faults.
[[nodiscard]] Scenario draw_scenario(uint64_t seed);

}  // namespace penstock::sim
