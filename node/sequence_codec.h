// Between the wire's words for a sequence and the engine's. Pure functions.
#pragma once

#include "engine/engine.h"
#include "kv_transfer/handoff_types.h"
#include "node/messages.h"

namespace penstock {

// kInvalidArgument names the field: ids out of the vocabulary, sampling out of range, limits below 1.
[[nodiscard]] Result<StartRequest> start_request_of(const wire::StartT& start, int32_t vocab);

// P: what RESERVE will say of this sequence.
[[nodiscard]] HandoffRequest handoff_request_of(const StartRequest& start);

// D: what to submit for a RESERVE.
[[nodiscard]] ReserveSequence reserve_sequence_of(const HandoffRequest& request);

inline SequenceKey sequence_key_of(const HandoffKey& key, SequenceId sequence) {
  return {sequence, key.epoch};
}

}  // namespace penstock
