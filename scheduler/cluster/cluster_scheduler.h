// The router's policy: which nodes serve a sequence, what reaches the client, what happens when a node dies.
//
// Pure state machine: step(now, event) -> actions, no clock, thread, log or socket. Owned and called by the
// router's one thread. Same policy, same events: same actions, bit for bit, on every platform.
//
// Promises. Every Arrival gets exactly one of Finish, Reject, Fail. Deliver positions of a sequence are
// prompt_tokens, prompt_tokens + 1, ... without gap or repetition, whatever dies. A started sequence whose
// attempt fails is replayed with a raised epoch on another pair; what a stale epoch says is ignored and
// answered with AbortOn. Memory is bounded by queue_len_max and the nodes' sequences_max.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/time.h"
#include "scheduler/cluster/cluster_events.h"

namespace penstock::scheduler {

// kAuto: per request, whatever is expected to finish first. kAlways: prefill and decode on different nodes,
// without such a pair requests are rejected. kNever: all on the decode node.
using penstock::Disaggregate;

struct ClusterPolicy {
  Disaggregate disaggregate = Disaggregate::kAuto;
  std::string model;  // nodes of another model are refused; empty: the first node decides
  uint64_t seed = 1;  // breaks ties between equal placements
  TransferId first_transfer{
      1};  // nodes remember how transfers ended: another life of a router starts elsewhere
  int32_t queue_len_max = 1024;  // arrivals that wait for a node; replays do not count
  int32_t attempts_max = 8;      // starts of one sequence before it fails
  int32_t reorder_max = 256;     // tokens of one sequence held back while an earlier one is missing
  Duration replay_wait_max =
      Duration::from_ms(2500);                      // with no usable pair, a started sequence fails after it
  Duration gap_wait_max = Duration::from_ms(1000);  // a missing token after this long: replay
  Duration progress_wait_max =
      Duration::from_ms(30000);  // on top of 4 x the projected time to the first token
};

// For metrics and `penstock status`.
struct ClusterStats {
  int32_t nodes = 0;
  int32_t queued = 0;   // waiting for a node, replays included
  int32_t started = 0;  // on nodes now
  uint64_t arrivals = 0, finished = 0, rejected = 0, failed = 0;
  uint64_t replays = 0, tokens_delivered = 0, tokens_dropped = 0;  // dropped: duplicates and stale epochs
};

class ClusterScheduler {
 public:
  explicit ClusterScheduler(const ClusterPolicy& policy);
  ~ClusterScheduler();
  ClusterScheduler(const ClusterScheduler&) = delete;
  ClusterScheduler& operator=(const ClusterScheduler&) = delete;

  // The actions are valid until the next call; carry them out in order. `now` never goes back.
  const ClusterActions& step(TimePoint now, const ClusterEvent& event);

  // When a Tick is due; max(): not before another event.
  TimePoint next_wakeup() const;
  ClusterStats stats() const;
  // True when no sequence is known: after ShutdownRequested the router may leave.
  bool idle() const;

  // CHECKs accounts against a recount, bounds of queues and credits. For tests and sim.
  void check_invariants() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock::scheduler
