// Drives scheduler/cluster on the real clock: wire messages and requests become events, actions become wire
// messages and answers.
//
// Lives on the router's one thread. Keeps what the scheduler must not know: connections, prompts and
// delivered tokens (for replay), answers. Every submitted answer is completed exactly once, unless its client
// goes first.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "base/rng.h"
#include "base/time.h"
#include "router/answer.h"
#include "router/event_recorder.h"
#include "router/metrics.h"
#include "router/node_table.h"
#include "router/served_model.h"
#include "scheduler/cluster/cluster_scheduler.h"
#include "wire/channel_zmq.h"

namespace penstock::router {

struct DriverOptions {
  scheduler::ClusterPolicy policy;
  Duration heartbeat_period = Duration::from_ms(200);
  Duration dead_after = Duration::from_ms(2000);
  size_t requests_max = 1024;
  EventRecorder* recorder = nullptr;  // must outlive the driver
};

// One KV handoff, for `penstock status` and the demo.
struct HandoffRecord {
  TransferId transfer;
  std::string response_id;
  std::string prefill, decode;                                 // names
  uint64_t bytes = 0, transfer_us = 0, reserve_to_ack_us = 0;  // 0 until it is done
};

class ClusterDriver {
 public:
  using Send = std::function<Status(const std::string& identity, const wire::ControlT& message)>;

  ClusterDriver(const ServedModel& model, DriverOptions options, const Clock& clock, Logger log,
                RouterMetrics& metrics, Send send);

  // ---- requests ----
  bool full() const { return requests_.size() >= options_.requests_max; }
  void submit(std::unique_ptr<Answer> answer);
  void shutdown();  // new requests get 503, the rest runs on
  bool idle() const { return requests_.empty() && scheduler_.idle(); }
  // Whether a request that came now could be served.
  bool ready() const;

  // ---- wire and time ----
  void on_message(wire::FromNode from);
  // Heartbeats out, silent nodes lost, the scheduler's Tick. Call it after the wire has been drained.
  void tick();
  // When tick() is due at the latest.
  TimePoint next_due() const;
  // Called after each event that entered from outside: next_due() may be earlier now.
  void on_step(std::function<void()> callback) { on_step_ = std::move(callback); }

  // ---- for the admin listener ----
  const NodeTable& nodes() const { return nodes_; }
  const std::deque<HandoffRecord>& handoffs() const { return handoffs_; }  // oldest first
  scheduler::ClusterStats stats() const { return scheduler_.stats(); }
  size_t requests_running() const { return requests_.size(); }

 private:
  struct Request {
    uint64_t number = 0;
    std::unique_ptr<Answer> answer;
    std::vector<SequenceId> open;  // not ended
    TimePoint arrived, last_sent;  // to the client
    uint64_t seed = 0;
    bool client_gone = false;
  };
  struct Sequence {
    Request* request = nullptr;
    size_t choice = 0;
    std::vector<TokenId> ids;  // prompt, then what was delivered
    size_t prompt_tokens = 0;
    int32_t tokens_max = 0;
    Epoch epoch;
    TimePoint started, first_token, last_token;
    std::map<int32_t, GeneratedToken> arrived;  // by position: what came with a token until it is delivered
  };

  // cluster_driver.cc
  void post(scheduler::ClusterEvent event);
  const scheduler::ClusterActions& step(const scheduler::ClusterEvent& event);
  void client_gone(uint64_t request);
  void keep_alive(TimePoint now);
  void fail_request(SequenceId lost, const ApiError& error);
  void end_sequence(SequenceId id, const char* metric_reason);

  // driver_actions.cc
  void apply(const scheduler::ClusterAction& action);
  void apply(const scheduler::NodeAccepted& action);
  void apply(const scheduler::NodeRefused& action);
  void apply(const scheduler::StartPrefill& action);
  void apply(const scheduler::StartColocated& action);
  void apply(const scheduler::AbortOn& action);
  void apply(const scheduler::Deliver& action);
  void apply(const scheduler::Finish& action);
  void apply(const scheduler::Reject& action);
  void apply(const scheduler::Fail& action);
  void apply(const scheduler::NodeDrained& action);
  void start(SequenceId id, Epoch epoch, NodeId on, wire::StartT message);

  // driver_wire.cc
  void on_register(const std::string& identity, const wire::RegisterT& message);
  std::string refusal(const wire::RegisterT& message) const;  // empty: acceptable
  void on_frame(NodeState& node, const wire::FrameT& frame);
  void on_token(NodeId node, const wire::TokenT& token);
  void on_event(NodeState& node, const wire::EventUnion& event);
  void on_handoff_done(NodeId node, const wire::HandoffDoneT& done);
  void on_pair_up(NodeState& node, const wire::PairUpT& up);
  void lose(NodeId id, const std::string& reason);
  void replace(const NodeState& node, uint32_t new_pid);
  void forget(NodeId id, const std::string& reason);  // the same without a word to the node
  void refuse(const std::string& identity, const std::string& reason, bool final);
  void send_to(NodeId id, const wire::ControlT& message);
  void announce_peers();

  const ServedModel& model_;
  DriverOptions options_;
  const Clock& clock_;
  Logger log_;
  RouterMetrics& metrics_;
  Send send_;
  std::function<void()> on_step_;

  scheduler::ClusterScheduler scheduler_;
  std::deque<scheduler::ClusterEvent> events_;  // posted while a step's actions are carried out
  bool stepping_ = false;

  NodeTable nodes_;
  std::map<uint64_t, std::unique_ptr<Request>> requests_;
  std::unordered_map<SequenceId, Sequence> sequences_;
  std::deque<HandoffRecord> handoffs_;
  Rng rng_;  // seeds of requests that bring none
  uint64_t last_request_ = 0, last_sequence_ = 0;
  uint32_t last_node_ = 0;
  TimePoint last_tick_, heartbeat_due_;
};

}  // namespace penstock::router
