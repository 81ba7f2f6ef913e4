// HandoffReceiver: the decode side (D) of KV handoffs. DESIGN section 4; kv_transfer/handoff_types.h.
//
// Single-threaded, owned by the node's UCX thread; never blocks, owns no thread, reads no clock. It takes
// MessageType::kToReceiver of the transport. Drive it with poll(now) after progress() and at next_deadline(),
// and read take_events() after every call.
//
// Every transfer reports, in this order:
//   one kReserveRequested: answer with offer() or refuse();
//   after offer(): exactly one of kCommitted (bytes verified, ACK sent: decode) and kFailed (never decode);
//   after kFailed: exactly one kReleased, when no writer can write into the blocks any more: P said DRAINED,
//     or (transport.may_write) its process exited and its endpoint is gone. Between the two the blocks are
//     QUARANTINED: they must not be given to anyone, however long it takes. No timer ever releases them.
//   after a request that was neither offered nor refused: kFailed alone (nothing to release).
// After kCommitted the blocks are the caller's, and P writes no more.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "fabric/transport.h"
#include "kv_transfer/handoff_types.h"

namespace penstock {

struct ReceiverEvent {
  enum class Kind { kReserveRequested, kCommitted, kFailed, kReleased };
  Kind kind;
  HandoffKey key;
  SequenceId sequence;
  HandoffRequest request;       // of kReserveRequested
  FirstToken first;             // of kCommitted
  uint64_t bytes = 0;           // of kCommitted
  HandoffFailure failure;       // of kFailed
  std::vector<BlockId> blocks;  // of kCommitted, kFailed (now quarantined) and kReleased: those of offer()
};

class HandoffReceiver {
 public:
  HandoffReceiver(Transport& transport, const HandoffPool& pool, const HandoffCapability& capability,
                  const HandoffOptions& options);
  ~HandoffReceiver();

  // Grants blocks: exactly layout.blocks_for(request.ids.size()), all distinct and in the pool. From here on
  // P may write into them. False: the request ended meanwhile (its kFailed was already reported); the blocks
  // were not offered and are the caller's.
  bool offer(TimePoint now, HandoffKey key, const std::vector<BlockId>& blocks);

  // Answers a request with REFUSE. P learns reason and message. Unknown or ended keys: no effect.
  void refuse(TimePoint now, HandoffKey key, HandoffReason reason, std::string message);

  // Ends a transfer from this side. Before COMMIT: kFailed at once, ABORT to P (repeated until it answers),
  // kReleased as described above. After COMMIT, or unknown: no effect, the blocks are the caller's already.
  void abort(TimePoint now, HandoffKey key, HandoffReason reason);

  // From PeerMonitor. Silence fails the peer's transfers and quarantines their blocks. The caller closes the
  // connection when its lanes are not shared memory, which lets may_write() turn false; over shared memory it
  // keeps it, so that a peer that was only stopped can still say DRAINED.
  void peer_silent(TimePoint now, PeerId peer);

  // New requests are refused with kDraining from now on.
  void drain();

  // Handles messages, digests what arrived (bounded work per call), lets leases expire, repeats ABORT and
  // STATUS, releases what can be released. True: call again soon, there is more to digest.
  bool poll(TimePoint now);
  TimePoint next_deadline() const;

  std::vector<ReceiverEvent> take_events();

  size_t active() const;              // requested or offered, not ended
  size_t quarantined_blocks() const;  // failed and not released

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock
