#include "prefill_node/prefill_transfer.h"

#include <utility>

#include "node/sequence_codec.h"

namespace penstock {

PrefillTransfer::PrefillTransfer(const TransferContext& context)
    : context_(context), sender_(context.transport, context.pool, context.capability, context.options) {}

void PrefillTransfer::handle(TimePoint now, TransferMessage&& message) {
  if (auto* opened = std::get_if<OpenHandoff>(&message)) {
    open(now, std::move(*opened));
  } else if (const auto* ready = std::get_if<LayerReady>(&message)) {
    for (const auto& [key, token_end] : ready->token_ends)
      sender_.layer_ready(now, key, ready->layer, token_end);
  } else if (const auto* commit = std::get_if<CommitHandoff>(&message)) {
    const auto sampler = sampler_.find(commit->key);
    if (sampler == sampler_.end()) return;  // it failed meanwhile
    FirstToken first = commit->first;
    first.seed = sampler->second.seed;
    first.choice = sampler->second.choice;
    sender_.commit(now, commit->key, first);
  } else if (const auto* aborted = std::get_if<AbortHandoff>(&message)) {
    sender_.abort(now, aborted->key, HandoffReason::kCancelled);
  }
  carry_events();
}

void PrefillTransfer::open(TimePoint now, OpenHandoff&& message) {
  const HandoffKey key = message.request.key;
  const SequenceId sequence = message.request.sequence;
  const FirstToken sampler{0, 0, message.request.sampling.seed, message.request.sampling.choice};
  const PeerId peer = context_.find_peer(message.decode_peer);
  const Status status =
      peer == PeerId{}
          ? Status(fail(Error::kUnavailable, "decode node " + message.decode_peer + " is not connected"))
          : sender_.reserve(now, peer, std::move(message.request), std::move(message.blocks));
  if (!status.ok()) {
    const bool full = status.code() == Error::kResourceExhausted;
    failed(key, sequence, {full ? HandoffReason::kNoCredit : HandoffReason::kPeerLost, status.message()});
    context_.ports.engine.post(HandoffOver{sequence_key_of(key, sequence), false});
    return;
  }
  sampler_.emplace(key, sampler);
  if (message.ready_tokens == 0) return;
  for (int32_t layer = 0; layer < context_.pool.layout.layers; ++layer) {
    sender_.layer_ready(now, key, layer, message.ready_tokens);
  }
}

bool PrefillTransfer::poll(TimePoint now) {
  const bool more = sender_.poll(now);
  carry_events();
  return more;
}

void PrefillTransfer::peer_silent(TimePoint now, PeerId peer) {
  sender_.peer_silent(now, peer);
  carry_events();
}

void PrefillTransfer::carry_events() {
  using Kind = SenderEvent::Kind;
  for (const SenderEvent& event : sender_.take_events()) {
    switch (event.kind) {
      case Kind::kReserved:
        break;
      case Kind::kCommitted:
        committed(event);
        break;
      case Kind::kFailed:
        sampler_.erase(event.key);
        committed_[event.key] = false;
        failed(event.key, event.sequence, event.failure);
        break;
      case Kind::kReleased: {
        const auto ended = committed_.find(event.key);
        CHECK(ended != committed_.end());
        context_.ports.engine.post(HandoffOver{sequence_key_of(event.key, event.sequence), ended->second});
        committed_.erase(ended);
        break;
      }
    }
  }
}

void PrefillTransfer::committed(const SenderEvent& event) {
  sampler_.erase(event.key);
  committed_[event.key] = true;
  wire::HandoffDoneT done;
  done.sequence = event.sequence.value();
  done.epoch = event.key.epoch.value();
  done.transfer = event.key.transfer.value();
  done.bytes = event.stats.bytes;
  done.transfer_us = static_cast<uint64_t>(event.stats.transfer.us);
  done.reserve_to_ack_us = static_cast<uint64_t>(event.stats.reserve_to_ack.us);
  context_.ports.control.post(NodeEvent{event_of(std::move(done))});
}

// The sequence is of no use here any more; the router decides what becomes of it.
void PrefillTransfer::failed(const HandoffKey& key, SequenceId sequence, const HandoffFailure& failure) {
  context_.ports.engine.post(AbortRequest{sequence_key_of(key, sequence)});
  if (failure.reason == HandoffReason::kCancelled) return;  // asked for by this node's engine
  const bool refused = failure.reason == HandoffReason::kFull || failure.reason == HandoffReason::kNoCredit ||
                       failure.reason == HandoffReason::kDraining;
  context_.log.info("handoff failed", "sequence", sequence, "transfer", key, "reason",
                    handoff_reason_name(failure.reason), "message", failure.message);
  if (refused) {
    wire::ReserveRefusedT event;
    event.sequence = sequence.value();
    event.epoch = key.epoch.value();
    event.reason = failure.message;
    context_.ports.control.post(NodeEvent{event_of(std::move(event))});
    return;
  }
  wire::SequenceFailedT event;
  event.sequence = sequence.value();
  event.epoch = key.epoch.value();
  event.code = static_cast<wire::ErrorCode>(handoff_reason_error(failure.reason));
  event.message = "KV handoff: ";
  event.message.append(handoff_reason_name(failure.reason)).append(": ").append(failure.message);
  context_.ports.control.post(NodeEvent{event_of(std::move(event))});
}

}  // namespace penstock
