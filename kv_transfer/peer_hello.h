// PeerHello: what P and D tell each other over ZeroMQ before any endpoint is made; peer.fbs in bytes.
//
// The dialling side sends Hello; the other checks it and answers with its own Hello, accepted, or with a
// refusal that names both sides. Only then do both connect(). Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "fabric/transport.h"
#include "kv_transfer/handoff_types.h"

namespace penstock {

struct PeerHello {
  std::string node;          // name, for messages
  uint64_t incarnation = 0;  // as registered with the router
  PeerAddress address;
  HandoffCapability capability;
  MemoryDescriptor probe;  // target of the bandwidth probe (fabric/lane_probe.h)
  MemoryDescriptor pool;   // the KV pool: imported while nothing is in flight, not under the first OFFER
  uint32_t credits = 0;    // transfers this node takes at once
  std::string refusal;     // empty: accepted
  uint64_t attempt = 0;    // numbers the connections that the dialling process asks for; repetitions share it
};

[[nodiscard]] std::string encode_hello(const PeerHello& hello);
// kCorrupt when the bytes are no well-formed hello; sizes are bounded.
[[nodiscard]] Result<PeerHello> decode_hello(std::string_view bytes);
// Protocol, UCX settings and capability, in this order; kIncompatible names both nodes.
[[nodiscard]] Status check_hello(const PeerHello& ours, const PeerHello& theirs);

}  // namespace penstock
