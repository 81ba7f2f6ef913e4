// TransferLoop: the UCX thread. Connections to peers, their heartbeats and probes, and the role's handoffs.
//
// Everything here runs on one thread, which no forward pass can block; it sleeps in epoll when idle.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "fabric/lane_probe.h"
#include "fabric/peer_monitor.h"
#include "node/transfer_side.h"

namespace penstock {

struct TransferLoopOptions {
  HandoffOptions handoff;
  HeartbeatOptions heartbeat;
};

class TransferLoop {
 public:
  // `probe_memory`: LaneProbe::kBytes of the transport's memory. All references outlive the loop.
  TransferLoop(Transport& transport, const HandoffPool& pool, const HandoffCapability& capability,
               LocalMemory probe_memory, const TransferLoopOptions& options, NodePorts& ports,
               const Clock& clock, Logger log, const TransferSideFactory& make_side);

  // Until `stop` is set and the inbox was nudged.
  void run(const std::atomic<bool>& stop);
  // One turn of the loop, which never blocks. True: there may be more to do at once.
  bool turn();

 private:
  struct Connection {
    PeerId peer;
    MemoryDescriptor probe_target;
    MemoryDescriptor pool;
    bool wants_probe = false;
  };

  void handle_messages();
  void connect(ConnectPeer&& message);
  void close_connection(const PeerIdentity& identity);
  void on_peer_failed(PeerId peer, const Failure& failure);
  void on_monitor_events();
  void on_probe_results();
  const PeerIdentity* identity_of(PeerId peer) const;
  void drop(PeerId peer, const std::string& reason);
  TimePoint next_deadline() const;
  void sleep();

  Transport& transport_;
  NodePorts& ports_;
  const Clock& clock_;
  Logger log_;
  PeerMonitor monitor_;
  LaneProbe probe_;
  HandoffOptions handoff_options_;
  std::map<PeerIdentity, Connection> connections_;
  std::unique_ptr<TransferSide> side_;
  std::vector<TransferMessage> messages_;
};

}  // namespace penstock
