// The peer half of ControlLoop: hellos before any endpoint, and what the router hears of pairs.
#include <algorithm>
#include <utility>

#include "node/control_loop.h"

namespace penstock {
namespace {

constexpr Duration kHelloWaitMax = Duration::from_ms(2000);

const char* accept_any(std::string_view) { return nullptr; }

}  // namespace

// P: dials every decode node that is not connected, again and again with back-off.
void ControlLoop::say_hello(TimePoint now) {
  if (!dials()) return;
  for (auto& [identity, peer] : peers_) {
    if (peer.node_id == 0 || peer.connected || peer.refused || now < peer.hello_due) continue;
    peer.hello_due = now + peer.hello_wait;
    peer.hello_wait = std::min(peer.hello_wait * 2, kHelloWaitMax);
    if (peer.dialled == nullptr) {
      auto client = wire::PeerClient::dial(context_, peer.address, identity_, accept_any, options_.channel);
      if (!client.ok()) {
        log_.warn("peer cannot be dialled", "peer", identity, "address", peer.address, "reason",
                  client.message());
        continue;
      }
      peer.dialled = std::move(*client);
    }
    // A socket takes nothing before it is connected, which happens in the background: the same one tries
    // again.
    const Status sent = peer.dialled->send(encode_hello(options_.hello));
    if (!sent.ok()) log_.debug("hello not sent yet", "peer", identity, "reason", sent.message());
  }
}

void ControlLoop::receive_hello_answers() {
  std::vector<std::string> frames;
  for (auto& [identity, peer] : peers_) {
    if (peer.dialled == nullptr) continue;
    frames.clear();
    peer.dialled->receive(frames);
    for (const std::string& bytes : frames) on_hello_answer(identity, peer, bytes);
    if (peer.connected || peer.refused) peer.dialled.reset();
  }
}

void ControlLoop::on_hello_answer(const PeerIdentity& identity, Peer& peer, const std::string& bytes) {
  if (peer.connected || peer.refused) return;
  auto hello = decode_hello(bytes);
  Status fits = hello.ok() ? check_hello(options_.hello, *hello) : Status(hello.failure());
  if (hello.ok() && !hello->refusal.empty()) fits = fail(Error::kIncompatible, hello->refusal);
  if (!fits.ok()) {
    log_.error("pair refused", "peer", identity, "reason", fits.message());
    peer.refused = true;
    on_pair_broken({identity, fits.message()});
    return;
  }
  peer.connected = true;
  ports_.transfer.post(ConnectPeer{identity, std::move(*hello), true});
}

// D: answers hellos of prefill nodes.
void ControlLoop::receive_hellos() {
  std::vector<wire::FromPeer> frames;
  server_->receive(frames);
  for (const wire::FromPeer& frame : frames) on_hello(frame);
}

void ControlLoop::on_hello(const wire::FromPeer& frame) {
  const auto hello = decode_hello(frame.bytes);
  if (!hello.ok()) {
    log_.warn("malformed hello dropped", "peer", frame.identity, "reason", hello.message());
    return;
  }
  PeerHello answer = options_.hello;
  const Status fits = check_hello(options_.hello, *hello);
  if (!fits.ok()) {
    log_.error("pair refused", "peer", frame.identity, "reason", fits.message());
    answer.refusal = fits.message();
  } else {
    // Posted before the answer leaves, so that this side's endpoint is there as early as can be.
    ports_.transfer.post(ConnectPeer{frame.identity, *hello, false});
  }
  const Status sent = server_->send(frame.identity, encode_hello(answer));
  if (!sent.ok()) log_.warn("hello not answered", "peer", frame.identity, "reason", sent.message());
}

void ControlLoop::on_pair_ready(const PairReady& pair) {
  log_.info("pair ready", "peer", pair.identity, "lanes", pair.lanes, "put_gbps", pair.put_gbps,
            "memcpy_gbps", pair.memcpy_gbps);
  if (!pair.warning.empty()) log_.warn("slow lane", "peer", pair.identity, "warning", pair.warning);
  pairs_[pair.identity] = pair;
  report_pair(pair);
}

void ControlLoop::report_pair(const PairReady& pair) {
  const auto peer = peers_.find(pair.identity);
  if (peer == peers_.end() || peer->second.node_id == peer->second.reported_as) return;
  peer->second.reported_as = peer->second.node_id;
  wire::PairUpT up;
  up.peer = peer->second.node_id;
  up.lanes = pair.lanes;
  up.put_gbps = static_cast<float>(pair.put_gbps);
  up.memcpy_gbps = static_cast<float>(pair.memcpy_gbps);
  frame_.add(event_of(std::move(up)));
}

void ControlLoop::on_pair_broken(const PairBroken& pair) {
  const auto peer = peers_.find(pair.identity);
  pairs_.erase(pair.identity);
  if (peer == peers_.end()) return;
  peer->second.reported_as = 0;
  wire::PairDownT down;
  down.peer = peer->second.node_id;
  down.reason = pair.reason;
  if (dials()) {
    frame_.add(event_of(std::move(down)));
    peer->second.connected = false;  // hello again, unless it was refused
    peer->second.hello_wait = Duration::from_ms(100);
    peer->second.hello_due = clock_.now() + peer->second.hello_wait;
  }
}

}  // namespace penstock
