// The state of ClusterScheduler and the parts its step is made of. Internal to scheduler/cluster.
//
// Owned by one ClusterScheduler, same thread. Split by concern: cluster_scheduler.cc (the stream of a
// sequence), cluster_dispatch.cc (queue, start, replay, end), cluster_nodes.cc (nodes, pairs, accounts).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "scheduler/cluster/cluster_events.h"
#include "scheduler/cluster/cluster_scheduler.h"
#include "scheduler/cluster/node_table.h"
#include "scheduler/cluster/placement.h"

namespace penstock::scheduler {

struct HeldToken {
  int32_t position = 0;
  TokenId token = 0;
  EndReason end = EndReason::kNone;
};

struct ClusterSequence {
  SequenceId id;
  uint64_t order = 0;  // of arrival
  int32_t prompt_tokens = 0, tokens_max = 0;
  TimePoint deadline = TimePoint::max();
  int32_t next_position = 0;  // of the next token to deliver
  bool queued = false;
  Epoch epoch;  // of the current attempt, or of the last one while queued; 0: never started
  int32_t attempts = 0, refusals = 0;
  TimePoint unserviceable_since = TimePoint::max();  // while queued

  // The attempt. Ids are 0 while queued; `prefill` also when colocated. D is charged as long as the attempt
  // lives, P until the handoff is over.
  NodeId prefill, decode;
  bool prefill_charged = false;
  NodeId prefilling_on;  // charged with start_tokens of prefill until the first token
  int32_t prefill_blocks = 0, decode_blocks = 0;
  int32_t start_tokens = 0;
  bool first_token_seen = false;
  bool handed_off = false;  // D owns the KV, P's death does not matter
  TimePoint progress_deadline = TimePoint::max();
  TimePoint gap_since = TimePoint::max();
  std::vector<HeldToken> held;  // later than next_position, in position order

  TimePoint timer = TimePoint::max();  // its entry in timers; fires at or before the earliest deadline

  int32_t length() const { return next_position; }  // prompt and delivered tokens
};

struct ClusterScheduler::State {
  explicit State(const ClusterPolicy& p) : policy(p), rng(p.seed), next_transfer(p.first_transfer.value()) {}

  // cluster_scheduler.cc
  void handle(const TokenArrived& event);
  void handle(const HandoffDone& event);
  void handle(const ReserveRefused& event);
  void handle(const SequenceFailed& event);
  void handle(const ClientGone& event);
  void handle(const StopFound& event);
  void handle(const ShutdownRequested&) { shutting_down = true; }
  void handle(const Tick&);
  ClusterSequence* find(SequenceId id);
  // The sequence, when (node, epoch) is its current attempt; else answers the stale message and gives null.
  ClusterSequence* find_current(NodeId node, SequenceId id, Epoch epoch, bool node_still_works);
  void token_of_attempt(ClusterSequence& sequence, const TokenArrived& event);
  void hold(ClusterSequence& sequence, const HeldToken& token);
  void deliver_held(ClusterSequence& sequence);
  // Delivers the next token; true when it was the last and the sequence is gone.
  bool deliver(ClusterSequence& sequence, TokenId token, EndReason end);
  void fire_timer(ClusterSequence& sequence);

  // cluster_dispatch.cc
  void handle(const Arrival& event);
  PlacementRequest request_of(const ClusterSequence& sequence) const;
  void pump();
  bool try_start(ClusterSequence& sequence);
  void enqueue(ClusterSequence& sequence);
  void leave_queue(ClusterSequence& sequence);
  void refresh_serviceable();
  void replay(ClusterSequence& sequence);
  void abort_attempt(ClusterSequence& sequence, AbortReason reason);
  void finish(ClusterSequence& sequence, EndReason reason);
  void reject(ClusterSequence& sequence, RejectReason reason);
  void fail(ClusterSequence& sequence, FailReason reason, std::string message);
  void forget(ClusterSequence& sequence);
  void arm(ClusterSequence& sequence, TimePoint at);
  double projected_wait_s() const;
  int32_t retry_after_s() const;
  int32_t output_expected(const ClusterSequence& sequence) const;

  // cluster_nodes.cc
  void handle(const NodeJoined& event);
  void handle(const NodeLost& event);
  void handle(const PairUp& event);
  void handle(const PairDown& event);
  void handle(const NodeLoad& event);
  void handle(const DrainRequested& event);
  void report_drained();
  void charge(ClusterSequence& sequence, const Placement& placement);
  void release_prefill(ClusterSequence& sequence);
  void release_decode(ClusterSequence& sequence);
  void end_prefill_charge(ClusterSequence& sequence);
  void first_token(ClusterSequence& sequence);
  void grow(ClusterSequence& sequence);
  void check_accounts() const;

  const ClusterPolicy policy;
  Rng rng;
  TimePoint now;
  NodeTable table;
  std::map<SequenceId, ClusterSequence> sequences;
  // Replays (false) before new arrivals (true), each in order of arrival.
  std::map<std::pair<bool, uint64_t>, SequenceId> queue;
  int32_t queued_new = 0;
  int64_t queued_tokens = 0;  // to prefill, of all queued
  std::set<std::pair<TimePoint, SequenceId>> timers;
  uint64_t orders = 0, next_transfer;
  double output_mean = 128;  // tokens that finished sequences generated, smoothed
  bool shutting_down = false;
  bool pump_due = false;  // something may have made room
  ClusterStats stats;
  ClusterActions actions;
};

}  // namespace penstock::scheduler
