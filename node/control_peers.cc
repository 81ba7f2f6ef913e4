// The peer half of ControlLoop: hellos before any endpoint, and what the router hears of pairs.
#include <algorithm>
#include <utility>

#include "node/control_loop.h"

namespace penstock {
namespace {

constexpr Duration kHelloWaitMin = Duration::from_ms(100);
constexpr Duration kHelloWaitMax = Duration::from_ms(2000);

// Hellos are checked when they are decoded; anything goes here.
const char* accept_any(std::string_view) { return nullptr; }

// An address can pass to another process before everybody has heard of it.
Result<PeerHello> said_by(const PeerIdentity& identity, PeerHello hello) {
  const PeerIdentity speaker = wire::node_identity(hello.node, hello.incarnation);
  if (speaker != identity) return fail(Error::kCorrupt, "hello of " + speaker);
  return hello;
}

wire::EventUnion pair_down(uint32_t peer, const std::string& reason) {
  wire::PairDownT down;
  down.peer = peer;
  down.reason = reason;
  return event_of(std::move(down));
}

}  // namespace

// P: dials every decode node that is not connected, again and again with back-off.
void ControlLoop::say_hello(TimePoint now) {
  if (!dials()) return;
  for (auto& [identity, peer] : peers_) {
    if (!peer.wants_hello() || now < peer.hello_due) continue;
    if (peer.attempt == 0) peer.attempt = ++attempts_;
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
    PeerHello hello = options_.hello;
    hello.attempt = peer.attempt;
    const Status sent = peer.dialled->send(encode_hello(hello));
    sent_ = true;
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
    log_dropped("answer to a hello dropped", *peer.dialled);
    if (!peer.wants_hello()) peer.dialled.reset();
  }
}

void ControlLoop::on_hello_answer(const PeerIdentity& identity, Peer& peer, const std::string& bytes) {
  if (!peer.wants_hello()) return;
  auto hello = decode_hello(bytes);
  if (hello.ok()) hello = said_by(identity, std::move(*hello));
  if (!hello.ok()) {
    log_.warn("malformed answer to a hello dropped", "peer", identity, "reason", hello.message());
    return;
  }
  Status fits = check_hello(options_.hello, *hello);
  if (!hello->refusal.empty()) fits = fail(Error::kIncompatible, hello->refusal);
  if (!fits.ok()) {
    log_.error("pair refused", "peer", identity, "reason", fits.message());
    peer.refusal = fits.message();
    report_refusal(peer);
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
  log_dropped("frame from a peer dropped", *server_);
}

void ControlLoop::on_hello(const wire::FromPeer& frame) {
  auto hello = decode_hello(frame.bytes);
  if (hello.ok()) hello = said_by(frame.identity, std::move(*hello));
  if (!hello.ok()) {
    log_.warn("malformed hello dropped", "peer", frame.identity, "reason", hello.message());
    return;
  }
  PeerHello answer = options_.hello;
  const Status fits = check_hello(options_.hello, *hello);
  if (!fits.ok()) {
    log_.error("pair refused", "peer", frame.identity, "reason", fits.message());
    answer.refusal = fits.message();
  } else if (uint64_t& heard = heard_attempts_[frame.identity]; heard != hello->attempt) {
    // Posted before the answer leaves, so that this side's endpoint is there as early as can be. A hello that
    // is only repeated must not cost the connection that its first copy made.
    heard = hello->attempt;
    ports_.transfer.post(ConnectPeer{frame.identity, *hello, false});
  }
  const Status sent = server_->send(frame.identity, encode_hello(answer));
  sent_ = true;
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
  if (peer == peers_.end() || peer->second.node_id == 0) return;
  if (peer->second.node_id == peer->second.reported_as) return;
  peer->second.reported_as = peer->second.node_id;
  wire::PairUpT up;
  up.peer = peer->second.node_id;
  up.lanes = pair.lanes;
  up.put_gbps = static_cast<float>(pair.put_gbps);
  up.memcpy_gbps = static_cast<float>(pair.memcpy_gbps);
  frame_.add(event_of(std::move(up)));
}

void ControlLoop::report_refusal(Peer& peer) {
  if (peer.refusal.empty() || peer.node_id == peer.reported_as) return;
  peer.reported_as = peer.node_id;
  frame_.add(pair_down(peer.node_id, peer.refusal));
}

// P says hello again; D waits for that.
void ControlLoop::on_pair_broken(const PairBroken& pair) {
  heard_attempts_.erase(pair.identity);
  const bool worked = pairs_.erase(pair.identity) > 0;
  const auto found = peers_.find(pair.identity);
  if (found == peers_.end() || !dials()) return;
  Peer& peer = found->second;
  peer.reported_as = 0;
  if (peer.node_id != 0) frame_.add(pair_down(peer.node_id, pair.reason));
  peer.connected = false;
  peer.attempt = 0;
  if (worked) peer.hello_wait = kHelloWaitMin;  // else the back-off goes on: it may never work
  peer.hello_due = clock_.now() + peer.hello_wait;
}

void ControlLoop::log_dropped(const char* what, wire::Channel& channel) {
  for (const std::string& reason : channel.take_refused()) log_.warn("connection refused", "reason", reason);
  for (const wire::DroppedFrame& dropped : channel.take_dropped())
    log_.warn(what, "from", dropped.identity, "reason", dropped.reason);
}

}  // namespace penstock
