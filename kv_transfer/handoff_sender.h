// HandoffSender: the prefill side (P) of KV handoffs. DESIGN section 4; kv_transfer/handoff_types.h.
//
// Single-threaded, owned by the node's UCX thread; never blocks, owns no thread, reads no clock. It takes
// MessageType::kToSender of the transport. Drive it with poll(now) after progress() and at next_deadline(),
// and read take_events() after every call.
//
// Every transfer that reserve() accepted reports, in this order:
//   at most one kReserved;
//   exactly one of kCommitted (D owns a verified copy and will decode) and kFailed (D never will, as far as
//     can be known: after a lost ACK D may have committed, and the router's next epoch settles that);
//   exactly one kReleased: nothing reads the source blocks any more. Until then the caller must neither free
//     nor change them. It comes with kCommitted, and after kFailed when posted puts have ended.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "fabric/transport.h"
#include "kv_transfer/handoff_types.h"

namespace penstock {

struct HandoffStats {
  uint64_t bytes = 0;
  Duration transfer;        // first put posted to last flush complete
  Duration reserve_to_ack;  // RESERVE sent to ACK received
  uint64_t puts = 0;
};

struct SenderEvent {
  enum class Kind { kReserved, kCommitted, kFailed, kReleased };
  Kind kind;
  HandoffKey key;
  SequenceId sequence;
  HandoffFailure failure;  // of kFailed; a refusal by D carries D's reason (kFull, kNoCredit ...)
  HandoffStats stats;      // of kCommitted
};

class HandoffSender {
 public:
  HandoffSender(Transport& transport, const HandoffPool& pool, const HandoffCapability& capability,
                const HandoffOptions& options);
  ~HandoffSender();

  // Sends RESERVE. `source_blocks` hold the KV of request.ids in order: exactly layout.blocks_for(ids). The
  // last block's unused part is zero-filled here before it leaves, so it must belong to this sequence alone.
  // Failure: nothing was started, no event will come. kInvalidArgument (sizes, blocks, a key in use),
  // kStaleEpoch, kResourceExhausted (tables or this peer's bound full), kUnavailable (no such connection).
  Status reserve(TimePoint now, PeerId peer, HandoffRequest request, std::vector<BlockId> source_blocks);

  // K and V of tokens [0, token_end) of `layer` lie in the source blocks, visible to this thread. May come
  // before the OFFER, in any order of layers; token_end of a layer never falls. Whole blocks are posted as
  // they become ready, the last one when token_end reaches ids.size(). Unknown or ended keys are ignored:
  // the engine may run behind an abort.
  void layer_ready(TimePoint now, HandoffKey key, int32_t layer, uint32_t token_end);

  // The prompt is complete and the first token sampled: COMMIT goes out once every layer is flushed. Call
  // once, before or after the last layer_ready(). Unknown or ended keys are ignored.
  void commit(TimePoint now, HandoffKey key, const FirstToken& first);

  // Ends a transfer from this side: no more puts are posted, posted ones are flushed, then D is told DRAINED.
  // kFailed (with `reason`) comes at once, kReleased after the flush or the connection's end. After COMMIT
  // was sent the outcome belongs to D: the abort is ignored if D's ACK arrives first. Unknown keys: no
  // effect.
  void abort(TimePoint now, HandoffKey key, HandoffReason reason);

  // From PeerMonitor. Silence fails the peer's transfers; the connection is left as it is.
  void peer_silent(TimePoint now, PeerId peer);

  // Handles what messages and completions left, posts puts within the budget, renews leases, finds deadlines.
  // True: call again soon, more can be posted at once.
  bool poll(TimePoint now);
  TimePoint next_deadline() const;

  std::vector<SenderEvent> take_events();

  size_t active() const;                           // reserved and not yet released
  uint64_t bytes_completed(HandoffKey key) const;  // flushed so far; 0 when unknown

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock
