// What simulated processes say to each other. Plain values, modelled on wire/ and the handoff protocol
// (DESIGN 4) without being bound to their encoding.
#pragma once

#include <vector>

#include "scheduler/batch/batch_events.h"
#include "scheduler/cluster/cluster_events.h"

namespace penstock::sim {

using scheduler::SequenceKey;

// Prefill <-> decode node.
struct PeerMessage {
  enum class Kind : uint8_t { kReserve, kOffer, kRefused, kCommit, kAck, kNak, kAbort, kDrained };
  Kind kind = Kind::kReserve;
  SequenceKey key;
  int from = 0;                   // index of the sending node
  uint32_t from_incarnation = 0;  // which of its processes
  scheduler::SequenceSpec spec;   // kReserve
  std::vector<BlockId> blocks;    // kOffer
  TokenId first_token = 0;        // kCommit
};

// Router -> node.
struct StartMessage {
  scheduler::SequenceKind kind = scheduler::SequenceKind::kLocal;
  int decode_node = 0;  // index; kPrefill only
  scheduler::SequenceSpec spec;
};

// Node -> router, one per engine step at most, and the heartbeat.
struct Frame {
  NodeId node;  // as registered
  scheduler::BatchLoad load;
  std::vector<scheduler::TokenArrived> tokens;
  std::vector<scheduler::ClusterEvent> events;
};

}  // namespace penstock::sim
