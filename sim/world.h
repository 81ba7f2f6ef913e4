// One simulated cluster from first arrival to last block returned: the real ClusterScheduler behind a
// modelled router driver, simulated nodes, clients that check what they get, faults, and the seven invariants
// of DESIGN 2.
//
// Single-threaded, deterministic: the same scenario gives the same actions. Used once: construct, run, read.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "scheduler/cluster/cluster_record.h"
#include "scheduler/cluster/cluster_scheduler.h"
#include "sim/event_queue.h"
#include "sim/node.h"
#include "sim/scenario.h"

namespace penstock::sim {

struct Violation {
  int invariant = 0;  // its number in DESIGN 2
  std::string what;
  TimePoint when;
};

struct WorldReport {
  std::optional<Violation> violation;
  uint64_t action_hash = 0;
  uint64_t requests = 0, finished = 0, rejected = 0, failed = 0;
  uint64_t tokens = 0, preemptions = 0, replays = 0, events = 0;
  uint64_t faults[kFaultKinds] = {};
};

class World {
 public:
  // With `record`, the router's events are appended to it in the form of cluster_codec.h.
  explicit World(const Scenario& scenario, std::vector<uint8_t>* record = nullptr);
  ~World();
  WorldReport run();

  // ---- For SimNode ----
  EventQueue& queue() { return queue_; }
  TimePoint now() const { return queue_.now(); }
  void violate(int invariant, std::string what);
  void register_node(SimNode& node);
  void to_router(SimNode& from, Frame frame);
  void to_peer(int from, int to, PeerMessage message);
  void put(int node, uint32_t incarnation, SequenceKey key, BlockId block);
  scheduler::SequenceSpec spec_of(SequenceKey key, int32_t tokens) const;
  void count_preemption() { ++report_.preemptions; }

 private:
  // A client and what it has got.
  struct Client {
    RequestPlan plan;
    int32_t next_position = 0;
    int ends = 0;
    bool gone = false, string_found = false;
  };
  struct Registration {
    int node = 0;
    uint32_t incarnation = 0;
    TimePoint last_frame;
    bool accepted = false;
    bool draining = false;
  };
  // Where an attempt was started, to see later that it is gone there.
  struct Attempt {
    scheduler::SequenceKey key;
    std::vector<std::pair<int, uint32_t>> processes;  // node, incarnation
  };
  struct Noise {
    double loss = 0, duplication = 0, reordering = 0;
  };

  // world.cc: router driver
  void step(const scheduler::ClusterEvent& event);
  void carry_out(const scheduler::NodeAccepted& accepted);
  void carry_out(const scheduler::NodeRefused& refused);
  void carry_out(const scheduler::StartPrefill& start);
  void carry_out(const scheduler::StartColocated& start);
  void carry_out(const scheduler::AbortOn& abort);
  void carry_out(const scheduler::Deliver& deliver);
  void carry_out(const scheduler::Finish& finish);
  void carry_out(const scheduler::Reject& reject);
  void carry_out(const scheduler::Fail& fail);
  void carry_out(const scheduler::NodeDrained& drained);
  void on_register(int node, uint32_t incarnation);
  void on_frame(const Frame& frame);
  void connect(NodeId a, NodeId b);
  void lose(NodeId id);
  void lose_process(int node, const std::function<bool(const Registration&)>& which);
  void send_to_node(NodeId id, std::function<void(SimNode&)> work);
  void tick_when_due();
  void watch_heartbeats();
  void beat(int node);
  // A message on a link with this noise: delivered never, once or twice, in time or late.
  void transmit(const Noise& noise, std::function<void()> deliver);

  // world_faults.cc
  void start_fault(const FaultPlan& fault);
  void end_fault(const FaultPlan& fault);
  void crash(int node);
  void restart(int node);
  void cut_pair(NodeId prefill, NodeId decode);
  void drain(int node);
  void admit_stranger();

  // world_check.cc
  void check_end(SequenceId sequence, const char* how);
  void check_quiet();
  void begin_attempt(SequenceKey key, const std::vector<NodeId>& nodes);
  void end_attempt(SequenceId sequence);
  void check_gone(const Attempt& attempt, TimePoint since);
  bool done() const;
  bool pair_exists() const;
  void note_pairs();

  const Scenario scenario_;
  EventQueue queue_;
  Rng rng_;
  scheduler::ClusterScheduler cluster_;
  scheduler::ActionHash hash_;
  std::vector<uint8_t>* record_;
  scheduler::RecordWriter writer_;
  std::vector<std::unique_ptr<SimNode>> nodes_;
  std::vector<Noise> noise_;  // by node
  std::set<std::pair<int, int>> partitioned_;
  std::map<NodeId, Registration> registrations_;
  std::set<std::pair<NodeId, NodeId>> pairs_;  // up, as the router knows: prefill, decode
  std::map<SequenceId, Client> clients_;
  std::map<SequenceId, Attempt> attempts_;  // the current one of each
  uint32_t node_ids_ = 0;
  uint64_t open_ = 0;  // clients without an end
  int faults_active_ = 0;
  TimePoint last_fault_;  // the last time at which one began or ended
  bool messages_are_lost_ = false;
  size_t faults_left_ = 0;
  TimePoint tick_at_ = TimePoint::max();
  TimePoint last_pair_;  // a registered pair existed then
  TimePoint quiet_deadline_;
  bool stranger_pending_ = false;
  WorldReport report_;
};

}  // namespace penstock::sim
