// TransferSide: what a role does on the transfer (UCX) thread: one end of the KV handoff protocol.
//
// Made and used on the transfer thread alone. prefill_node/ wraps HandoffSender, decode_node/
// HandoffReceiver.
#pragma once

#include <functional>
#include <memory>

#include "base/log.h"
#include "base/time.h"
#include "fabric/transport.h"
#include "kv_transfer/handoff_types.h"
#include "node/engine_side.h"
#include "node/messages.h"

namespace penstock {

class TransferSide {
 public:
  virtual ~TransferSide() = default;
  // Messages of the engine thread; ConnectPeer never comes here.
  virtual void handle(TimePoint now, TransferMessage&& message) = 0;
  // After progress(), and at next_deadline(). True: call again soon.
  virtual bool poll(TimePoint now) = 0;
  virtual TimePoint next_deadline() const = 0;
  virtual void peer_silent(TimePoint now, PeerId peer) = 0;
};

struct TransferContext {
  Transport& transport;
  const HandoffPool& pool;
  const HandoffCapability& capability;
  const HandoffOptions& options;
  NodePorts& ports;
  Logger log;
  // The connection to a peer that is established; PeerId(0) when there is none.
  std::function<PeerId(const PeerIdentity&)> find_peer;
};

using TransferSideFactory = std::function<std::unique_ptr<TransferSide>(const TransferContext&)>;

}  // namespace penstock
