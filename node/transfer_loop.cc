#include "node/transfer_loop.h"

#include <poll.h>

#include <algorithm>
#include <utility>

namespace penstock {
namespace {
// However quiet it is, the loop looks round this often.
constexpr Duration kSleepMax = Duration::from_ms(500);
}  // namespace

TransferLoop::TransferLoop(Transport& transport, const HandoffPool& pool, const HandoffCapability& capability,
                           LocalMemory probe_memory, const TransferLoopOptions& options, NodePorts& ports,
                           const Clock& clock, Logger log, const TransferSideFactory& make_side)
    : transport_(transport),
      ports_(ports),
      clock_(clock),
      log_(std::move(log)),
      monitor_(transport, options.heartbeat),
      probe_(transport, clock, std::move(probe_memory)),
      handoff_options_(options.handoff) {
  const auto find_peer = [this](const PeerIdentity& identity) {
    const auto found = connections_.find(identity);
    const bool usable = found != connections_.end() && monitor_.established(found->second.peer);
    return usable ? found->second.peer : PeerId{};
  };
  side_ = make_side({transport, pool, capability, handoff_options_, ports, log_, find_peer});
  transport_.add_peer_failed_listener(
      [this](PeerId peer, const Failure& failure) { on_peer_failed(peer, failure); });
}

void TransferLoop::run(const std::atomic<bool>& stop) {
  while (!stop.load()) {
    if (!turn()) sleep();
  }
}

bool TransferLoop::turn() {
  handle_messages();
  const bool progressed = transport_.progress();
  const TimePoint now = clock_.now();
  monitor_.tick(now);
  on_monitor_events();
  on_probe_results();
  return side_->poll(now) || progressed;
}

void TransferLoop::handle_messages() {
  ports_.transfer.take(messages_);
  for (TransferMessage& message : messages_) {
    if (auto* connecting = std::get_if<ConnectPeer>(&message)) {
      connect(std::move(*connecting));
    } else {
      side_->handle(clock_.now(), std::move(message));
    }
  }
}

void TransferLoop::connect(ConnectPeer&& message) {
  close_connection(message.identity);  // the peer of that life said hello anew: it has given the old one up
  const auto peer = transport_.connect(message.hello.address);
  if (!peer.ok()) {
    log_.warn("peer refused", "peer", message.identity, "reason", peer.message());
    ports_.control.post(PairBroken{message.identity, peer.message()});
    return;
  }
  log_.info("peer connecting", "peer", message.identity);
  connections_[message.identity] = {*peer, message.hello.probe, message.hello.pool, message.probe};
  monitor_.add(clock_.now(), *peer);
}

void TransferLoop::close_connection(const PeerIdentity& identity) {
  const auto found = connections_.find(identity);
  if (found == connections_.end()) return;
  const PeerId peer = found->second.peer;
  side_->peer_silent(clock_.now(), peer);  // what runs with it fails now, and blocks stay quarantined
  monitor_.remove(peer);
  transport_.close(peer);
  connections_.erase(found);
}

void TransferLoop::on_peer_failed(PeerId peer, const Failure& failure) {
  monitor_.remove(peer);
  drop(peer, failure.message);
}

void TransferLoop::drop(PeerId peer, const std::string& reason) {
  const PeerIdentity* identity = identity_of(peer);
  if (identity == nullptr) return;
  log_.warn("peer lost", "peer", *identity, "reason", reason);
  ports_.control.post(PairBroken{*identity, reason});
  connections_.erase(PeerIdentity(*identity));
}

void TransferLoop::on_monitor_events() {
  for (const PeerMonitorEvent& event : monitor_.take_events()) {
    const PeerIdentity* identity = identity_of(event.peer);
    if (identity == nullptr) continue;
    using Kind = PeerMonitorEvent::Kind;
    if (event.kind == Kind::kEstablished) {
      Connection& connection = connections_.at(*identity);
      if (!connection.wants_probe) continue;
      // Now, while the peer is known to live: importing a dead peer's memory is what UCX does worst.
      const auto pool = transport_.import_memory(event.peer, connection.pool);
      if (!pool.ok()) log_.warn("pool not imported", "peer", *identity, "reason", pool.message());
      const Status started = probe_.start(event.peer, connection.probe_target);
      if (!started.ok()) log_.warn("lane probe failed", "peer", *identity, "reason", started.message());
      continue;
    }
    if (event.kind == Kind::kHeardAgain) {
      log_.info("peer heard again", "peer", *identity);
      if (connections_.at(*identity).wants_probe) {
        static_cast<void>(probe_.start(event.peer, connections_.at(*identity).probe_target));
      }
      continue;
    }
    side_->peer_silent(clock_.now(), event.peer);
    const bool keep = event.kind == Kind::kSilent && transport_.lanes(event.peer).shared_memory;
    if (keep) {  // only stopped, perhaps: it can still say DRAINED, and its process's end is seen
      ports_.control.post(PairBroken{*identity, "no heartbeat"});
      continue;
    }
    monitor_.remove(event.peer);
    transport_.close(event.peer);
    drop(event.peer,
         event.kind == Kind::kNoReply ? "no first heartbeat: is its UCX reachable?" : "no heartbeat");
  }
}

void TransferLoop::on_probe_results() {
  for (const LaneProbeResult& result : probe_.take_results()) {
    const PeerIdentity* identity = identity_of(result.peer);
    if (identity == nullptr) continue;
    if (!result.status.ok()) {
      ports_.control.post(PairBroken{*identity, "lane probe: " + result.status.message()});
      continue;
    }
    ports_.control.post(PairReady{*identity, result.lanes.put + " (messages " + result.lanes.message + ")",
                                  result.put_gbps, result.memcpy_gbps, result.warning});
  }
}

const PeerIdentity* TransferLoop::identity_of(PeerId peer) const {
  for (const auto& [identity, connection] : connections_) {
    if (connection.peer == peer) return &identity;
  }
  return nullptr;
}

TimePoint TransferLoop::next_deadline() const {
  return std::min({monitor_.next_deadline(), side_->next_deadline(), clock_.now() + kSleepMax});
}

void TransferLoop::sleep() {
  if (!transport_.arm()) return;
  pollfd waiting[2] = {{transport_.event_fd(), POLLIN, 0}, {ports_.transfer.fd(), POLLIN, 0}};
  const Duration left = next_deadline() - clock_.now();
  const int timeout_ms = left.us <= 0 ? 0 : static_cast<int>((left.us + 999) / 1000);
  ::poll(waiting, 2, timeout_ms);
}

}  // namespace penstock
