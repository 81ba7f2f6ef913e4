#include "node/engine_side.h"

#include <utility>
#include <vector>

namespace penstock {

void EngineSide::handle(EngineMessage&& message) {
  std::visit(
      [this](auto&& m) {
        using Message = std::decay_t<decltype(m)>;
        if constexpr (std::is_same_v<Message, StartRequest>) {
          start(std::move(m));
        } else if constexpr (std::is_same_v<Message, ReserveAsked>) {
          reserve(std::move(m));
        } else if constexpr (std::is_same_v<Message, AbortRequest>) {
          if (Live* live = find(m.key)) live->aborted = true;
          engine().handle(scheduler::Abort{m.key});
        } else if constexpr (std::is_same_v<Message, AbortAll>) {
          abort_all();
        } else if constexpr (std::is_same_v<Message, RemoteCommitted>) {
          engine().handle(scheduler::KvCommitted{m.key, m.first_token});
        } else {
          engine().handle(scheduler::HandoffEnded{m.key, m.committed});
        }
      },
      std::move(message));
}

void EngineSide::abort_all() {
  std::vector<SequenceKey> keys;
  for (const auto& [key, live] : live_) keys.push_back(key);
  for (const SequenceKey key : keys) engine().handle(scheduler::Abort{key});
}

EngineSide::Live* EngineSide::find(SequenceKey key) {
  const auto found = live_.find(key);
  return found == live_.end() ? nullptr : &found->second;
}

void EngineSide::on_token(const EmittedToken& token) { report_.tokens.push_back(token); }

void EngineSide::on_ended(SequenceKey key, EndReason reason, bool handoff_open, const std::string& message) {
  if (reason == EndReason::kFailed) report_failure(key, wire::ErrorCode::Internal, message);
  Live* live = find(key);
  if (live != nullptr && handoff_open && live->open) ports_.transfer.post(AbortHandoff{live->handoff});
}

void EngineSide::on_refused(SequenceKey key, scheduler::RefuseReason reason, const std::string& message) {
  using scheduler::RefuseReason;
  if (reason == RefuseReason::kDuplicate) return;  // a message repeated: live_ holds the first one
  live_.erase(key);
  if (reason == RefuseReason::kStaleEpoch) return;  // the router itself has gone on
  const auto code = reason == RefuseReason::kTooLong || reason == RefuseReason::kInvalid
                        ? wire::ErrorCode::InvalidArgument
                        : wire::ErrorCode::ResourceExhausted;
  report_failure(key, code, message);
}

void EngineSide::on_freed(SequenceKey key) {
  const auto found = live_.find(key);
  if (found == live_.end()) return;
  if (found->second.aborted) {
    wire::AbortedT aborted;
    aborted.sequence = key.sequence.value();
    aborted.epoch = key.epoch.value();
    report(event_of(std::move(aborted)));
  }
  live_.erase(found);
}

void EngineSide::report(wire::EventUnion event) { report_.events.push_back(std::move(event)); }

void EngineSide::report_failure(SequenceKey key, wire::ErrorCode code, const std::string& message) {
  wire::SequenceFailedT failed;
  failed.sequence = key.sequence.value();
  failed.epoch = key.epoch.value();
  failed.code = code;
  failed.message = message;
  report(event_of(std::move(failed)));
}

void EngineSide::flush() {
  const scheduler::BatchLoad load = engine().load();
  const bool load_changed = load.blocks_free != told_.blocks_free || load.running != told_.running ||
                            load.waiting != told_.waiting || load.blocks_leased != told_.blocks_leased ||
                            load.blocks_quarantined != told_.blocks_quarantined ||
                            load.waiting_tokens != told_.waiting_tokens;
  if (report_.tokens.empty() && report_.events.empty() && !load_changed) return;
  told_ = load;
  report_.load = load;
  report_.speeds = engine().speeds();
  ports_.control.post(std::exchange(report_, StepReport{}));
}

}  // namespace penstock
