// One of the two processes of the handoff benchmark: transport, pool and connection, driven by hand.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/fd.h"
#include "base/time.h"
#include "fabric/peer_monitor.h"
#include "fabric/transport.h"
#include "kv_transfer/handoff_types.h"
#include "kv_transfer/peer_hello.h"

namespace penstock::bench {

class HandoffPeer {
 public:
  // `channel`: a SEQPACKET socket to the other process.
  static Result<std::unique_ptr<HandoffPeer>> make(int channel, const std::string& transports,
                                                   const KvLayout& layout, uint32_t pool_blocks);

  // Exchanges hellos and waits until both directions work.
  Status connect();

  // Drives the transport and `poll` until `done`, sleeping when quiet. kDeadlineExceeded after 20 s.
  Status run_until(const std::function<bool()>& done, const std::function<bool(TimePoint)>& poll = {});
  // Another descriptor that ends a sleep.
  void wake_on(int fd) { extra_fd_ = fd; }

  Status send(const std::string& message) const;
  Result<std::string> receive() const;
  bool has_message() const;

  Transport& transport() { return *transport_; }
  const HandoffPool& pool() const { return pool_; }
  const HandoffCapability& capability() const { return capability_; }
  PeerId peer() const { return peer_; }
  RemoteMemoryId peer_pool() const { return peer_pool_; }
  const SystemClock& clock() const { return clock_; }

 private:
  HandoffPeer() = default;

  int channel_ = -1;
  int extra_fd_ = -1;
  SystemClock clock_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<PeerMonitor> monitor_;
  HandoffPool pool_;
  HandoffCapability capability_;
  PeerId peer_;
  RemoteMemoryId peer_pool_;
};

}  // namespace penstock::bench
