// Prefill and decode nodes in one thread: their real engines, roles and transfer loops, over the in-memory
// network and a clock that stands still. The test is the router.
//
// Every turn one of the threads-to-be runs, or something lands, chosen by the seed; a forward pass lets the
// others run between two layers. Equal seeds, equal runs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "engine/engine.h"
#include "fabric/transport_memory.h"
#include "node/node.h"
#include "node/transfer_loop.h"
#include "tests/node/pool_runner.h"

namespace penstock {

struct RoleWorldOptions {
  MemoryNetworkOptions network;
  HandoffOptions handoff;
  HeartbeatOptions heartbeat;
  int32_t batch_tokens_max = 24;
  int32_t reserve_lead_tokens = 40;  // RESERVE leaves a step before the last chunk
  RoleWorldOptions() {
    handoff.put_bytes_max = 512;
    handoff.post_bytes_per_poll = 2048;
    handoff.progress_bytes = 2048;
  }
};

struct RoleNode {
  PeerIdentity identity;
  NodeRole role = NodeRole::kDecode;
  std::unique_ptr<Transport> transport;
  HandoffPool pool;
  std::unique_ptr<PoolRunner> runner;
  NodePorts ports;
  std::unique_ptr<EngineSide> side;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<TransferLoop> loop;
  bool alive = true, stopped = false, in_forward = false;
  bool engine_paused = false;  // by the test: its thread got no time
  // What its control thread heard.
  std::vector<PairReady> ready;
  std::vector<PairBroken> broken;
  scheduler::BatchLoad told;  // the last reported load

  uint64_t instance() const { return transport->address().identity.instance; }
  bool at_rest() const {
    engine->batch().check_invariants();
    return side->sequences() == 0 && engine->load().blocks_free == static_cast<int32_t>(pool.blocks);
  }
};

// One choice of one request, as the router keeps it.
struct RoutedSequence {
  wire::StartT start;                 // of the last attempt
  std::vector<TokenId> prompt;        // the client's
  std::map<int32_t, TokenId> tokens;  // by position, of all attempts
  std::set<int32_t> heard;            // positions of the current attempt
  EndReason end = EndReason::kNone;   // told with the last token
  // Events of the current attempt.
  uint64_t bytes = 0;  // that the handoff moved
  int done = 0, refused = 0, failed = 0, aborted = 0;
  wire::ErrorCode code = wire::ErrorCode::Internal;
  std::string message;
  bool lost() const { return refused + failed > 0; }
  std::vector<TokenId> ids() const;  // the tokens, if none is missing
};

class RoleWorld {
 public:
  explicit RoleWorld(const RoleWorldOptions& options = {});
  ~RoleWorld();

  RoleNode& add(NodeRole role, uint32_t pool_blocks = 16);
  // ConnectPeer, as after a hello; connect(): on both sides, and what follows from it.
  void dial(RoleNode& node, const RoleNode& peer, bool probe = false);
  void connect(RoleNode& prefill, RoleNode& decode, bool probe = false);

  // A new request: greedy, 12 tokens. The test may change .start before it is sent.
  RoutedSequence& request(uint64_t id, std::vector<TokenId> prompt);
  void start_split(RoutedSequence& sequence, RoleNode& prefill, const RoleNode& decode);
  void start_colocated(RoutedSequence& sequence, RoleNode& node);
  // The next epoch: prompt and tokens so far. The caller starts it.
  void next_attempt(RoutedSequence& sequence);
  void abort(const RoutedSequence& sequence, RoleNode& node);

  void kill(RoleNode& node);
  void stop(RoleNode& node);
  void resume(RoleNode& node);

  bool turn();               // whether something moved
  void settle();             // until nothing moves at this time
  void pass(Duration time);  // in steps of at most 50 ms, settling at each

  std::function<void(int)> on_turn;  // before each turn, with its number
  int turns = 0;
  size_t in_flight() const { return network_->in_flight(); }
  ManualClock clock;
  std::map<uint64_t, RoutedSequence> sequences;
  std::vector<std::string> problems;

 private:
  bool run_engine(RoleNode& node);
  bool run_transfer(RoleNode& node);
  bool run_control(RoleNode& node);
  void hear(RoleNode& node, StepReport&& report);
  void hear(const wire::EventUnion& event);
  RoutedSequence* current(uint64_t sequence, uint32_t epoch);
  bool send(RoutedSequence& sequence, RoleNode& node, const PeerIdentity& decode);

  RoleWorldOptions options_;
  Rng rng_;
  std::unique_ptr<MemoryNetwork> network_;
  HandoffCapability capability_;
  std::vector<std::unique_ptr<RoleNode>> nodes_;
};

}  // namespace penstock
