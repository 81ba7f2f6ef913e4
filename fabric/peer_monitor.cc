#include "fabric/peer_monitor.h"

#include <algorithm>

namespace penstock {

PeerMonitor::PeerMonitor(Transport& transport, HeartbeatOptions options)
    : transport_(transport), options_(options) {
  transport_.set_message_handler(
      MessageType::kHeartbeat,
      [this](PeerId from, std::span<const std::byte> body) { on_heartbeat(from, body); });
}

void PeerMonitor::add(TimePoint now, PeerId peer) {
  Watched watched;
  watched.added = watched.next_send = watched.last_heard = now;
  peers_[peer] = watched;
}

void PeerMonitor::remove(PeerId peer) { peers_.erase(peer); }

bool PeerMonitor::established(PeerId peer) const {
  const auto found = peers_.find(peer);
  return found != peers_.end() && found->second.established;
}

bool PeerMonitor::silent(PeerId peer) const {
  const auto found = peers_.find(peer);
  return found != peers_.end() && found->second.silent;
}

void PeerMonitor::on_heartbeat(PeerId from, std::span<const std::byte> body) {
  const auto found = peers_.find(from);
  if (found == peers_.end() || body.size() != 1) return;
  found->second.fresh = found->second.heard = true;
  found->second.heard_by_peer = body[0] != std::byte{0};
}

void PeerMonitor::judge(TimePoint now, PeerId peer, Watched& watched) {
  if (watched.fresh) {
    watched.fresh = false;
    watched.last_heard = now;
    if (watched.silent) events_.push_back({PeerMonitorEvent::Kind::kHeardAgain, peer});
    watched.silent = false;
    if (!watched.established && watched.heard_by_peer) {
      watched.established = true;
      events_.push_back({PeerMonitorEvent::Kind::kEstablished, peer});
    }
  }
  if (!watched.established) {
    if (!watched.gave_up && now - watched.added >= options_.first_reply) {
      watched.gave_up = true;
      events_.push_back({PeerMonitorEvent::Kind::kNoReply, peer});
    }
  } else if (!watched.silent && now - watched.last_heard >= options_.dead_after) {
    watched.silent = true;
    events_.push_back({PeerMonitorEvent::Kind::kSilent, peer});
  }
}

void PeerMonitor::tick(TimePoint now) {
  for (auto& [peer, watched] : peers_) {
    const bool first_heard = watched.fresh && !watched.established;
    judge(now, peer, watched);
    // The first word of a peer is answered at once: it waits for our answer before it says it is ready.
    if (now < watched.next_send && !first_heard) continue;
    const std::byte body{static_cast<unsigned char>(watched.heard ? 1 : 0)};
    // A failed connection is the transport's to report.
    static_cast<void>(transport_.send_message(peer, MessageType::kHeartbeat, {&body, 1}));
    watched.next_send = now + options_.period;
  }
}

TimePoint PeerMonitor::next_deadline() const {
  TimePoint next = TimePoint::max();
  for (const auto& [peer, watched] : peers_) {
    next = std::min(next, watched.next_send);
    if (!watched.established && !watched.gave_up) next = std::min(next, watched.added + options_.first_reply);
    if (watched.established && !watched.silent)
      next = std::min(next, watched.last_heard + options_.dead_after);
  }
  return next;
}

std::vector<PeerMonitorEvent> PeerMonitor::take_events() {
  std::vector<PeerMonitorEvent> events;
  events.swap(events_);
  return events;
}

}  // namespace penstock
