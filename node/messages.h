// What the three threads of a node tell each other. Plain values, moved through inboxes (node/inbox.h).
//
//   control thread  -> engine thread:    StartRequest, AbortRequest, AbortAll
//   transfer thread -> engine thread:    ReserveAsked, RemoteCommitted, HandoffOver, AbortRequest
//   engine thread   -> transfer thread:  OpenHandoff, LayerReady, CommitHandoff, AbortHandoff, OfferBlocks,
//                                        RefuseReserve
//   control thread  -> transfer thread:  ConnectPeer
//   engine thread   -> control thread:   StepReport
//   transfer thread -> control thread:   NodeEvent, PairReady, PairBroken
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/engine.h"
#include "kv_transfer/handoff_sender.h"
#include "kv_transfer/handoff_types.h"
#include "kv_transfer/peer_hello.h"
#include "wire/control.h"

namespace penstock {

// One life of a peer: its name and incarnation, as wire::node_identity writes them.
using PeerIdentity = std::string;

// ---- to the engine thread ----
struct StartRequest {
  SubmitSequence submit;  // kPrefill or kLocal
  TransferId transfer;
  PeerIdentity decode_peer;  // of kPrefill
};
struct AbortRequest {
  SequenceKey key;
};
struct AbortAll {};  // the router is lost: nothing it asked for is wanted any more
struct ReserveAsked {
  HandoffRequest request;
};
struct RemoteCommitted {
  SequenceKey key;
  TokenId first_token = 0;
};
struct HandoffOver {  // no remote party touches the sequence's blocks any more
  SequenceKey key;
  bool committed = false;
};
using EngineMessage =
    std::variant<StartRequest, AbortRequest, AbortAll, ReserveAsked, RemoteCommitted, HandoffOver>;

// ---- to the transfer thread ----
struct ConnectPeer {
  PeerIdentity identity;
  PeerHello hello;     // the peer's, checked
  bool probe = false;  // measure the lanes and report PairReady: the side that dialled does
};
struct OpenHandoff {
  HandoffRequest request;
  PeerIdentity decode_peer;
  std::vector<BlockId> blocks;
  uint32_t ready_tokens = 0;  // KV of that many tokens is in the blocks already, in every layer
};
struct LayerReady {
  int32_t layer = 0;
  std::vector<std::pair<HandoffKey, uint32_t>> token_ends;
};
struct CommitHandoff {
  HandoffKey key;
  FirstToken first;
};
struct AbortHandoff {
  HandoffKey key;
};
struct OfferBlocks {
  HandoffKey key;
  SequenceKey sequence;
  std::vector<BlockId> blocks;
};
struct RefuseReserve {
  HandoffKey key;
  HandoffReason reason = HandoffReason::kFull;
  std::string message;
};
using TransferMessage = std::variant<ConnectPeer, OpenHandoff, LayerReady, CommitHandoff, AbortHandoff,
                                     OfferBlocks, RefuseReserve>;

// ---- to the control thread ----
struct StepReport {
  std::vector<EmittedToken> tokens;
  std::vector<wire::EventUnion> events;
  scheduler::BatchLoad load;
  EngineSpeeds speeds;
};
struct NodeEvent {
  wire::EventUnion event;
};
struct PairReady {
  PeerIdentity identity;
  std::string lanes;
  double put_gbps = 0, memcpy_gbps = 0;
  std::string warning;
};
struct PairBroken {
  PeerIdentity identity;
  std::string reason;
};
using ControlMessage = std::variant<StepReport, NodeEvent, PairReady, PairBroken>;

template <typename Body>
wire::EventUnion event_of(Body body) {
  wire::EventUnion event;
  event.Set(std::move(body));
  return event;
}

}  // namespace penstock
