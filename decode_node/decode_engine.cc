#include "decode_node/decode_engine.h"

#include <utility>

#include "node/sequence_codec.h"

namespace penstock {
namespace {

HandoffReason refusal_of(scheduler::RefuseReason reason) {
  using scheduler::RefuseReason;
  switch (reason) {
    case RefuseReason::kNoBlocks:
      return HandoffReason::kFull;
    case RefuseReason::kTooManySequences:
      return HandoffReason::kNoCredit;
    case RefuseReason::kStaleEpoch:
      return HandoffReason::kStaleEpoch;
    case RefuseReason::kDuplicate:
      return HandoffReason::kConsumed;
    case RefuseReason::kTooLong:
    case RefuseReason::kInvalid:
      return HandoffReason::kProtocol;
  }
  return HandoffReason::kProtocol;
}

}  // namespace

void DecodeEngine::start(StartRequest&& request) {
  live_.try_emplace(request.submit.spec.key);
  engine().handle(std::move(request.submit));
}

void DecodeEngine::reserve(ReserveAsked&& asked) {
  const HandoffRequest& request = asked.request;
  const SequenceKey key = sequence_key_of(request.key, request.sequence);
  const auto [entry, added] = live_.try_emplace(key);
  if (added) entry->second.handoff = request.key;
  asking_ = request.key;
  is_reserve_ = true;
  engine().handle(reserve_sequence_of(request));
  is_reserve_ = false;
}

void DecodeEngine::on_reserve_granted(SequenceKey key, std::span<const BlockId> blocks) {
  Live* live = find(key);
  CHECK(live != nullptr);
  live->open = true;
  ports_.transfer.post(OfferBlocks{live->handoff, key, {blocks.begin(), blocks.end()}});
}

void DecodeEngine::on_refused(SequenceKey key, scheduler::RefuseReason reason, const std::string& message) {
  if (!is_reserve_) return EngineSide::on_refused(key, reason, message);
  const bool known = reason == scheduler::RefuseReason::kDuplicate;  // then live_ holds the older one
  if (!known) live_.erase(key);
  ports_.transfer.post(RefuseReserve{asking_, refusal_of(reason), message});
}

// Prefill here is always for this node's own decoding.
void DecodeEngine::on_reserve_due(const scheduler::Slice&, std::span<const BlockId>) { CHECK(false); }
void DecodeEngine::on_handoff_ready(SequenceKey, int32_t, TokenId) { CHECK(false); }

}  // namespace penstock
