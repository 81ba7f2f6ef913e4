#include "decode_node/decode_transfer.h"

#include <utility>

#include "node/sequence_codec.h"

namespace penstock {

DecodeTransfer::DecodeTransfer(const TransferContext& context)
    : context_(context), receiver_(context.transport, context.pool, context.capability, context.options) {}

void DecodeTransfer::handle(TimePoint now, TransferMessage&& message) {
  if (const auto* offer = std::get_if<OfferBlocks>(&message)) {
    if (!receiver_.offer(now, offer->key, offer->blocks)) {
      // The request ended before its answer: nobody was told of the blocks.
      context_.ports.engine.post(AbortRequest{offer->sequence});
      context_.ports.engine.post(HandoffOver{offer->sequence, false});
    }
  } else if (auto* refusal = std::get_if<RefuseReserve>(&message)) {
    receiver_.refuse(now, refusal->key, refusal->reason, std::move(refusal->message));
  } else if (const auto* aborted = std::get_if<AbortHandoff>(&message)) {
    receiver_.abort(now, aborted->key, HandoffReason::kCancelled);
  }
  carry_events();
}

bool DecodeTransfer::poll(TimePoint now) {
  const bool more = receiver_.poll(now);
  carry_events();
  return more;
}

void DecodeTransfer::peer_silent(TimePoint now, PeerId peer) {
  receiver_.peer_silent(now, peer);
  carry_events();
}

void DecodeTransfer::carry_events() {
  using Kind = ReceiverEvent::Kind;
  for (ReceiverEvent& event : receiver_.take_events()) {
    const SequenceKey key = sequence_key_of(event.key, event.sequence);
    switch (event.kind) {
      case Kind::kReserveRequested:
        context_.ports.engine.post(ReserveAsked{std::move(event.request)});
        break;
      case Kind::kCommitted:
        context_.ports.engine.post(RemoteCommitted{key, event.first.token});
        break;
      case Kind::kFailed:
        context_.log.info("handoff failed", "sequence", event.sequence, "transfer", event.key, "reason",
                          handoff_reason_name(event.failure.reason), "message", event.failure.message);
        context_.ports.engine.post(AbortRequest{key});  // its blocks stay quarantined until kReleased
        break;
      case Kind::kReleased:
        context_.ports.engine.post(HandoffOver{key, false});
        break;
    }
  }
}

}  // namespace penstock
