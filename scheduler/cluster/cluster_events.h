// Events into and actions out of the cluster scheduler of the router.
//
// Plain values with defined encodings (cluster_codec.h), so that a run can be recorded, replayed and hashed.
// Token ids and texts of prompts stay with the driver: the scheduler needs only counts.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "scheduler/sequence.h"
#include "topology/cluster_config.h"

namespace penstock::scheduler {

using penstock::NodeRole;

// What must be equal on all nodes that serve together, context_max excepted.
struct Capability {
  std::string model;
  WeightVersion weight_version;
  LayoutHash layout_hash;
  std::string kv_dtype;  // "bf16", "f32"
  int32_t block_tokens = 64;
  int32_t tensor_parallel = 1, pipeline_parallel = 1;
  int32_t layers = 0, kv_heads = 0, head_dim = 0;
  int32_t context_max = 0, vocab = 0;
  int32_t protocol = 0;
  friend bool operator==(const Capability&, const Capability&) = default;
};

struct Capacity {
  int32_t pool_blocks = 0;
  int32_t sequences_max = 0;
  int32_t batch_tokens_max = 0;
  double prefill_tokens_per_s = 0;      // one long prompt alone; measured by the node before it is ready
  double decode_b1_tokens_per_s = 0;    // batch of one
  double decode_bmax_tokens_per_s = 0;  // sum over a batch of sequences_max
};

// ---- Events -----------------------------------------------------------------------------------------------

// A node asks to serve. The driver gives every connection's registration a fresh NodeId. Answered by
// NodeAccepted or NodeRefused.
struct NodeJoined {
  NodeId node;
  std::string name;
  NodeRole role = NodeRole::kPrefill;
  Capability capability;
  Capacity capacity;
};

// Connection lost, heartbeat deadline passed, frame number skipped, or process known dead. The node's id is
// not used again. The driver makes sure that a node which still lives aborts its work and registers anew.
struct NodeLost {
  NodeId node;
};

// KV can flow from prefill to decode: connected, registered, probed.
struct PairUp {
  NodeId prefill, decode;
  double bytes_per_s = 0;
};
struct PairDown {
  NodeId prefill, decode;
};

// From every frame of a node (at least each heartbeat). Speeds are recent measurements; 0: none, keep the
// last.
struct NodeLoad {
  NodeId node;
  int32_t blocks_free = 0, blocks_held = 0, blocks_leased = 0, blocks_quarantined = 0;
  int32_t running = 0, waiting = 0;
  int64_t waiting_tokens = 0;  // tokens still to prefill
  double prefill_tokens_per_s = 0;
  double decode_step_s = 0;  // last mean time of a decode step, at `running` sequences
};

// One choice of one request, parsed and tokenised.
struct Arrival {
  SequenceId sequence;                    // never used before
  int32_t prompt_tokens = 0;              // >= 1
  int32_t tokens_max = 0;                 // >= 1; prompt_tokens + tokens_max <= context
  TimePoint deadline = TimePoint::max();  // latest start; past it a queued sequence is rejected with 429
};

struct TokenArrived {
  NodeId node;
  SequenceId sequence;
  Epoch epoch;
  int32_t position = 0;  // absolute
  TokenId token = 0;
  EndReason end = EndReason::kNone;  // kStop or kLength with the last token
};

// P says: ACK received, D owns the sequence now.
struct HandoffDone {
  NodeId node;  // P
  SequenceId sequence;
  Epoch epoch;
  int64_t bytes = 0;
  Duration transfer;  // first post to flush complete
};

// D had no room, as told by P. The attempt is over on both.
struct ReserveRefused {
  NodeId node;  // P
  SequenceId sequence;
  Epoch epoch;
};

// The attempt is over on `node` without success; what the other node holds is aborted by the scheduler.
struct SequenceFailed {
  NodeId node;
  SequenceId sequence;
  Epoch epoch;
  bool retryable = true;  // false: it would fail everywhere (too long, invalid)
  std::string message;    // for the client's error when there is no retry
};

struct ClientGone {
  SequenceId sequence;
};

// The router found a stop string in the delivered text.
struct StopFound {
  SequenceId sequence;
};

// No new work for the node; NodeDrained follows when it has none left.
struct DrainRequested {
  NodeId node;
};

// The router shuts down: arrivals are rejected with 503 from now on, the rest runs to its end.
struct ShutdownRequested {};

// Time has passed; due at next_wakeup() at the latest.
struct Tick {};

using ClusterEvent = std::variant<NodeJoined, NodeLost, PairUp, PairDown, NodeLoad, Arrival, TokenArrived,
                                  HandoffDone, ReserveRefused, SequenceFailed, ClientGone, StopFound,
                                  DrainRequested, ShutdownRequested, Tick>;

// ---- Actions ----------------------------------------------------------------------------------------------

struct NodeAccepted {
  NodeId node;
};
struct NodeRefused {
  NodeId node;
  std::string reason;  // both sides' values, for the node's log
};

// Send Start to `prefill`, naming `decode` as the target of the handoff. The ids are the driver's prompt +
// delivered tokens: `tokens` of them.
struct StartPrefill {
  SequenceId sequence;
  Epoch epoch;  // 1 for the first attempt; each replay raises it
  TransferId transfer;
  NodeId prefill, decode;
  int32_t tokens = 0;
};

// Send Start in colocated mode to `node`.
struct StartColocated {
  SequenceId sequence;
  Epoch epoch;
  NodeId node;
  int32_t tokens = 0;
};

enum class AbortReason : uint8_t { kClientGone, kStopFound, kSuperseded, kStale, kFinished };

// The node is to end the attempt and free its blocks. May name an attempt the node never had.
struct AbortOn {
  NodeId node;
  SequenceId sequence;
  Epoch epoch;
  AbortReason reason = AbortReason::kClientGone;
};

// Next token of the client's stream: positions come without gap or repetition. The driver keeps what else
// came with (sequence, position), log-probabilities for instance, until this or a terminal action.
struct Deliver {
  SequenceId sequence;
  int32_t position = 0;
  TokenId token = 0;
};

// Terminal actions: exactly one of the next three per Arrival.
struct Finish {
  SequenceId sequence;
  EndReason reason = EndReason::kStop;  // kStop, kLength; kAborted when the client has gone
};

enum class RejectReason : uint8_t {
  kQueueFull,      // 429
  kDeadline,       // 429: waited, or would have to wait, past its deadline
  kNoPrefillNode,  // 503
  kNoDecodeNode,   // 503
  kNoPair,         // 503: both roles exist, none connected to the other
  kShuttingDown,   // 503
  kTooLong,        // 400: no node's pool could ever hold it
};

// Before any token was delivered and any node started.
struct Reject {
  SequenceId sequence;
  RejectReason reason = RejectReason::kQueueFull;
  int32_t http_status = 429;
  int32_t retry_after_s = 0;  // >= 1 with 429 and 503
};

enum class FailReason : uint8_t {
  kNoOtherPair,      // its nodes died and no pair was left within replay_wait_max
  kTooManyAttempts,  // attempts_max replays did not bring it to an end
  kNotRetryable,     // a node said that it would fail everywhere
};

// After it was started.
struct Fail {
  SequenceId sequence;
  FailReason reason = FailReason::kNoOtherPair;
  std::string message;
};

struct NodeDrained {
  NodeId node;
};

using ClusterAction = std::variant<NodeAccepted, NodeRefused, StartPrefill, StartColocated, AbortOn, Deliver,
                                   Finish, Reject, Fail, NodeDrained>;
using ClusterActions = std::vector<ClusterAction>;

}  // namespace penstock::scheduler
