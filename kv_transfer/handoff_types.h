// Values shared by both ends of a KV handoff: who, what, how it ended, and the knobs.
//
// Protocol (DESIGN section 4): RESERVE -> OFFER | REFUSE -> puts, PROGRESS -> flush -> COMMIT -> ACK | NACK;
// ABORT -> DRAINED; STATUS either way; LEASE renewals in batches. P: prefill side, HandoffSender. D: decode
// side, HandoffReceiver. Identity is (transfer, epoch), given by the router, never a client's id.
#pragma once

#include <compare>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "fabric/transport.h"
#include "kernels/sampling.h"
#include "topology/kv_layout.h"

namespace penstock {

inline constexpr uint32_t kHandoffProtocol = 1;

struct HandoffKey {
  TransferId transfer;
  Epoch epoch;
  friend constexpr auto operator<=>(const HandoffKey&, const HandoffKey&) = default;
  friend std::ostream& operator<<(std::ostream& out, const HandoffKey& key) {
    return out << key.transfer << '/' << key.epoch;
  }
};

// What must be equal on both sides. Compared when peers say hello (a pair that cannot work is refused then)
// and again, as hash and version, in every RESERVE.
struct HandoffCapability {
  uint32_t protocol = kHandoffProtocol;
  std::string model;
  WeightVersion weight_version;
  KvLayout layout;
  uint32_t tensor_parallel = 1;
  uint32_t pipeline_parallel = 1;
  uint32_t context_max = 0;
  uint32_t vocab = 0;
};

// kIncompatible names the first field that differs, with both values.
[[nodiscard]] Status check_capability(const HandoffCapability& ours, const HandoffCapability& theirs);

// Everything D needs to go on with a sequence; RESERVE carries it, so that D learns of a split request in one
// place only.
struct HandoffRequest {
  HandoffKey key;
  SequenceId sequence;
  std::vector<TokenId> ids;    // what P prefills: the KV holds positions 0 .. ids.size()-1
  uint32_t prompt_tokens = 0;  // how many of ids are the client's prompt; the rest is a replay
  SamplingParams sampling;
  uint32_t tokens_max = 0;  // generated tokens in all, those already in ids included
  std::vector<TokenId> stop_ids;
  bool ignore_eos = false;
  bool logprobs = false;
  uint32_t top_logprobs = 0;
};

// What COMMIT adds. Sampling is counter-based: its whole state is (seed, choice, position).
struct FirstToken {
  TokenId token = 0;
  int64_t position = 0;  // == ids.size()
  uint64_t seed = 0;
  uint32_t choice = 0;
};

// Why D refuses a RESERVE, or either side ends a transfer. Names travel in events and logs.
enum class HandoffReason : uint8_t {
  kNone,
  kFull,          // no blocks now: the router waits or chooses another D
  kNoCredit,      // too many transfers under way at this D
  kStaleEpoch,    // a later epoch of the transfer is known
  kConsumed,      // this (transfer, epoch) has ended already: a replayed descriptor
  kUnknown,       // no such transfer here
  kWrongModel,    // model differs
  kWrongLayout,   // layout hash differs
  kWrongVersion,  // weight version differs
  kProtocol,      // malformed or contradictory message
  kDraining,      // the node takes no new work
  kCancelled,     // the owner aborted: client gone, replaced, deadline
  kCorrupt,       // byte count or digest differ from what arrived
  kLeaseExpired,  // no renewal in time
  kPeerLost,      // connection failed, or the process exited
  kPeerSilent,    // no heartbeat
  kTimeout,       // no answer in time although the peer lives
};
[[nodiscard]] std::string_view handoff_reason_name(HandoffReason reason);
[[nodiscard]] Error handoff_reason_error(HandoffReason reason);

struct HandoffFailure {
  HandoffReason reason = HandoffReason::kNone;
  std::string message;
};

struct HandoffOptions {
  bool digests = true;
  Duration lease = Duration::from_ms(2000);
  Duration retry = Duration::from_ms(200);      // resend RESERVE, ABORT; poll STATUS
  Duration deadline = Duration::from_ms(5000);  // without any answer to RESERVE or COMMIT
  uint32_t transfers_max = 256;                 // table bound, and D's credits
  uint32_t transfers_per_peer_max = 128;        // P: bound towards one D
  uint32_t ended_max = 4096;                    // remembered ends, for typed answers to late messages
  uint32_t tokens_max = 1u << 20;               // longest ids accepted from the wire
  size_t put_bytes_max = 1u << 20;              // longer runs are cut, so that progress() stays short
  size_t post_bytes_per_poll = 4u << 20;        // puts posted by one poll()
  size_t progress_bytes = 1u << 20;             // flush and PROGRESS after so many bytes at least
};

// The KV pool of this node: memory of the transport, in the layout of topology/kv_layout.h.
struct HandoffPool {
  LocalMemory memory;
  KvLayout layout;
  uint32_t blocks = 0;
};

}  // namespace penstock
