// A simulated serving node: the real BatchScheduler, an engine that keeps time by the cost model, and both
// ends of the KV handoff with a memory that remembers who wrote each block.
//
// Single-threaded; owned by a World, which calls it with messages and timers and outlives it. A crash empties
// the node and starts a new incarnation in the same object.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "scheduler/batch/batch_scheduler.h"
#include "sim/message.h"
#include "sim/scenario.h"
#include "topology/cost_model.h"

namespace penstock::sim {

class World;

class SimNode {
 public:
  SimNode(World& world, int index, const NodePlan& plan);

  // ---- Process life; called by World ----
  void start_process();
  void crash();
  void pause() { paused_ = true; }
  void resume();
  bool alive() const { return alive_; }
  bool paused() const { return paused_; }
  uint32_t incarnation() const { return incarnation_; }
  // Runs `work` as this process: at once, or after it continues; never once `incarnation` is gone.
  void run(uint32_t incarnation, std::function<void()> work);

  // ---- From the router ----
  void on_registered(NodeId id) { id_ = id; }
  void on_start(const StartMessage& start);
  void on_abort(SequenceKey key);
  void on_reset(NodeId id);  // the router lost this registration: drop its work, register again
  void on_heartbeat_due();

  // ---- From peers ----
  void on_peer(const PeerMessage& message);
  void on_peer_died(int index, uint32_t incarnation);
  // A put of another process lands in this process's memory, whatever state this process is in.
  void remote_write(SequenceKey key, BlockId block);

  const NodePlan& plan() const { return plan_; }
  const scheduler::BatchScheduler& batch() const { return *batch_; }
  NodeId id() const { return id_; }
  int index() const { return index_; }
  bool quiet() const {
    return senders_.empty() && receivers_.empty() && batch_->pool().free_count() == batch_->pool().size();
  }
  void fail_next_slice() { fail_next_slice_ = true; }
  void set_slowness(double device, double link) { slow_device_ = device, slow_link_ = link; }

 private:
  // P's end of one handoff.
  struct Sender {
    int decode_node = 0;
    uint32_t decode_incarnation = 0;  // of the process that offered
    std::vector<BlockId> source, target;
    bool offered = false, prefilled = false, commit_sent = false, stopping = false;
    TokenId first_token = 0;
    int32_t computed = 0;     // positions whose KV exists
    size_t posted = 0;        // writes started
    size_t landed = 0;        // writes done
    uint64_t generation = 0;  // tells apart timers of an earlier handoff with the same key
  };
  // D's end, from grant to COMMIT or to the proof that the writer is done.
  struct Receiver {
    int prefill_node = 0;
    uint32_t prefill_incarnation = 0;
    bool aborting = false;
    uint64_t generation = 0;
  };

  // node.cc: engine
  void step(const scheduler::BatchEvent& event);
  void carry_out(const scheduler::RunStep& run);
  void carry_out(const scheduler::ReserveGranted& granted);
  void carry_out(const scheduler::Refused& refused);
  void carry_out(const scheduler::Emit& emit);
  void carry_out(const scheduler::HandoffReady& ready);
  void carry_out(const scheduler::Preempted& preempted);
  void carry_out(const scheduler::Ended& ended);
  void carry_out(const scheduler::Freed& freed);
  void finish_step();
  void compute(const scheduler::Slice& slice);
  void report_failed(SequenceKey key);
  void flush_frame();
  void register_until_accepted();

  // handoff.cc: P
  void open_handoff(SequenceKey key);
  void ask_reserve(SequenceKey key, uint64_t generation, int tries);
  void on_offer(const PeerMessage& offer);
  void post_writes(SequenceKey key, Sender& sender);
  void write_landed(SequenceKey key, uint64_t generation, size_t index);
  void commit_when_flushed(SequenceKey key, Sender& sender);
  void send_commit(SequenceKey key, uint64_t generation);
  void stop_sender(SequenceKey key);
  void end_sender(SequenceKey key, bool committed);

  // handoff.cc: D
  void on_reserve(const PeerMessage& reserve);
  void on_commit(const PeerMessage& commit);
  void expire_lease(SequenceKey key, uint64_t generation);
  void ask_abort(SequenceKey key, uint64_t generation);
  void writer_done(SequenceKey key);

  void reply(const PeerMessage& to, PeerMessage::Kind kind);
  void send(int node, PeerMessage message);
  void later(Duration delay, std::function<void()> work);

  World& world_;
  const int index_;
  const NodePlan plan_;
  CostModel cost_;
  bool alive_ = false, paused_ = false;
  uint32_t incarnation_ = 0;
  NodeId id_;
  std::vector<std::function<void()>> backlog_;  // arrived while paused
  std::unique_ptr<scheduler::BatchScheduler> batch_;
  std::vector<SequenceKey> memory_;  // who wrote each block last
  std::vector<scheduler::Slice> running_;
  std::map<SequenceKey, Sender> senders_;
  std::map<SequenceKey, Receiver> receivers_;
  std::map<SequenceKey, int> decode_node_of_;  // kPrefill sequences before their handoff
  std::set<SequenceKey> committed_;            // COMMIT is idempotent
  std::set<SequenceKey> started_;              // Start acts once
  std::map<SequenceKey, scheduler::RefuseReason> refused_;
  Frame frame_;
  uint64_t generations_ = 0;
  bool fail_next_slice_ = false;
  double slow_device_ = 1, slow_link_ = 1;
};

}  // namespace penstock::sim
