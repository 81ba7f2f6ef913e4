// EngineSide: what a role does on the engine thread. It hears the engine and talks to the other threads.
//
// Lives on the engine thread, but for construction. The common part (tokens, ends, aborts, the report of each
// step) is here; prefill_node/ and decode_node/ add how a handoff begins and ends.
#pragma once

#include <string>
#include <unordered_map>

#include "base/log.h"
#include "engine/engine.h"
#include "node/inbox.h"
#include "node/messages.h"

namespace penstock {

// Where the other threads listen. Outlives all of them.
struct NodePorts {
  Inbox<EngineMessage> engine;
  Inbox<TransferMessage> transfer;
  Inbox<ControlMessage> control;
};

class EngineSide : public EngineListener {
 public:
  explicit EngineSide(NodePorts& ports) : ports_(ports) {}

  // Before the first message.
  void attach(Engine& engine) { engine_ = &engine; }
  void handle(EngineMessage&& message);
  // Posts what has gathered since the last call; nothing when there is nothing to tell.
  void flush();
  // Known here and not freed yet.
  size_t sequences() const { return live_.size(); }

  void on_token(const EmittedToken& token) override;
  void on_ended(SequenceKey key, EndReason reason, bool handoff_open, const std::string& message) override;
  void on_refused(SequenceKey key, scheduler::RefuseReason reason, const std::string& message) override;
  void on_freed(SequenceKey key) override;
  void on_step_end() override { flush(); }

 protected:
  struct Live {
    HandoffKey handoff;
    PeerIdentity decode_peer;
    HandoffRequest request;  // P: what RESERVE will say; its ids come from the batch scheduler
    bool open = false;       // the transfer thread knows of the handoff
    bool aborted = false;    // the router asked for the end and hears when the blocks are back
  };

  virtual void start(StartRequest&& request) = 0;
  virtual void reserve(ReserveAsked&& asked) = 0;

  Engine& engine() { return *engine_; }
  Live* find(SequenceKey key);
  void report(wire::EventUnion event);
  void report_failure(SequenceKey key, wire::ErrorCode code, const std::string& message);

  NodePorts& ports_;
  std::unordered_map<SequenceKey, Live> live_;

 private:
  void abort_all();
  Engine* engine_ = nullptr;
  StepReport report_;
  scheduler::BatchLoad told_;
};

}  // namespace penstock
