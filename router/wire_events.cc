#include "router/wire_events.h"

#include <algorithm>
#include <limits>

namespace penstock::router {
namespace {

// Counts from the wire are unsigned; what does not fit is as good as the maximum.
int32_t to_int(uint64_t value) {
  return static_cast<int32_t>(std::min<uint64_t>(value, std::numeric_limits<int32_t>::max()));
}

scheduler::EndReason end_reason(wire::EndReason reason) {
  switch (reason) {
    case wire::EndReason::None:
      return scheduler::EndReason::kNone;
    case wire::EndReason::Stop:
      return scheduler::EndReason::kStop;
    case wire::EndReason::Length:
      return scheduler::EndReason::kLength;
  }
  return scheduler::EndReason::kNone;
}

}  // namespace

scheduler::NodeJoined joined_event(NodeId id, const wire::RegisterT& message) {
  const wire::CapabilityT& from = *message.capability;
  scheduler::NodeJoined joined;
  joined.node = id;
  joined.name = message.name;
  joined.role =
      message.role == wire::Role::Prefill ? scheduler::NodeRole::kPrefill : scheduler::NodeRole::kDecode;
  joined.capability = {.model = from.model,
                       .weight_version = WeightVersion(from.weight_version),
                       .layout_hash = LayoutHash(from.layout_hash),
                       .kv_dtype = from.kv_dtype,
                       .block_tokens = to_int(from.block_tokens),
                       .tensor_parallel = to_int(from.tp),
                       .pipeline_parallel = to_int(from.pp),
                       .layers = to_int(from.layers),
                       .kv_heads = to_int(from.kv_heads),
                       .head_dim = to_int(from.head_dim),
                       .context_max = to_int(from.context_max),
                       .vocab = to_int(from.vocab),
                       .protocol = to_int(message.protocol)};
  const wire::CapacityT& capacity = *message.capacity;
  joined.capacity = {.pool_blocks = to_int(capacity.pool_blocks),
                     .sequences_max = to_int(capacity.sequences_max),
                     .batch_tokens_max = to_int(capacity.batch_tokens_max),
                     .prefill_tokens_per_s = capacity.prefill_toks,
                     .decode_b1_tokens_per_s = capacity.decode_b1_toks,
                     .decode_bmax_tokens_per_s = capacity.decode_bmax_toks};
  return joined;
}

scheduler::NodeLoad load_event(NodeId id, const wire::LoadT& load) {
  scheduler::NodeLoad event;
  event.node = id;
  event.blocks_free = to_int(load.free_blocks);
  event.blocks_held = to_int(load.held_blocks);
  event.blocks_leased = to_int(load.leased_blocks);
  event.blocks_quarantined = to_int(load.quarantined_blocks);
  event.running = to_int(load.running);
  event.waiting = to_int(load.waiting);
  event.waiting_tokens = static_cast<int64_t>(std::min<uint64_t>(load.waiting_tokens, INT64_MAX));
  event.prefill_tokens_per_s = std::max(0.0f, load.prefill_toks);
  if (load.decode_toks > 0 && load.running > 0)
    event.decode_step_s = static_cast<double>(load.running) / load.decode_toks;
  return event;
}

scheduler::TokenArrived token_event(NodeId id, const wire::TokenT& token) {
  scheduler::TokenArrived event;
  event.node = id;
  event.sequence = SequenceId(token.sequence);
  event.epoch = Epoch(token.epoch);
  event.position = to_int(token.position);
  event.token = token.token;
  event.end = end_reason(token.end_reason);
  return event;
}

bool is_retryable(wire::ErrorCode code) {
  return code != wire::ErrorCode::InvalidArgument && code != wire::ErrorCode::Unsupported;
}

wire::AbortReason abort_reason(scheduler::AbortReason reason) {
  switch (reason) {
    case scheduler::AbortReason::kClientGone:
      return wire::AbortReason::ClientGone;
    case scheduler::AbortReason::kStopFound:
      return wire::AbortReason::StopString;
    case scheduler::AbortReason::kSuperseded:
    case scheduler::AbortReason::kStale:
    case scheduler::AbortReason::kFinished:
      break;
  }
  return wire::AbortReason::Replaced;
}

}  // namespace penstock::router
