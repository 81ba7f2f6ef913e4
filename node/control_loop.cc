#include "node/control_loop.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "node/sequence_codec.h"

namespace penstock {
namespace {

constexpr Duration kRegisterRetry = Duration::from_ms(500);
constexpr Duration kConnectRetry =
    Duration::from_ms(50);  // while no connection stands, so that nothing is sent
constexpr Duration kUnreachableEvery = Duration::from_ms(10000);

// Hellos are checked when they are decoded; anything goes here.
const char* accept_any(std::string_view) { return nullptr; }

}  // namespace

ControlLoop::ControlLoop(ControlOptions options, NodePorts& ports, const Clock& clock, Logger log)
    : options_(std::move(options)), ports_(ports), clock_(clock), log_(std::move(log)) {}

ControlLoop::~ControlLoop() = default;

Status ControlLoop::run(int signal_fd) {
  RETURN_IF_ERROR(open());
  while (fatal_.ok()) {
    poll_once(signal_fd);
    const TimePoint now = clock_.now();
    receive_from_router();
    receive_hellos();
    receive_hello_answers();
    receive_messages();
    say_hello(now);
    tick_router(now);
    if (signals_ > 1 || (signals_ == 1 && (idle() || now >= drain_deadline_))) break;
  }
  return fatal_;
}

Status ControlLoop::open() {
  identity_ = wire::node_identity(options_.registration.name, options_.registration.incarnation);
  auto server = wire::PeerServer::bind(context_, options_.listen_host, "", accept_any, options_.channel);
  if (!server.ok()) return server.failure();
  server_ = std::move(*server);
  options_.registration.peer_address = server_->endpoint();
  auto router = wire::NodeChannel::dial(context_, options_.router_endpoint, identity_, options_.channel);
  if (!router.ok()) return router.failure();
  router_ = std::move(*router);
  log_.info("node started", "router", options_.router_endpoint, "peers", server_->endpoint());
  register_due_ = clock_.now();
  // The connection is made in the background: the first second is not worth a word.
  unreachable_told_ = clock_.now() - kUnreachableEvery + Duration::from_ms(1000);
  return {};
}

// Sleeps until something is readable or the next timer is due.
void ControlLoop::poll_once(int signal_fd) {
  std::vector<pollfd> fds = {{signal_fd, POLLIN, 0},
                             {ports_.control.fd(), POLLIN, 0},
                             {router_->fd(), POLLIN, 0},
                             {server_->fd(), POLLIN, 0}};
  TimePoint due = registered_ ? std::min(frame_due_, heard_ + options_.dead_after) : register_due_;
  for (const auto& [identity, peer] : peers_) {
    if (peer.dialled == nullptr) continue;
    fds.push_back({peer.dialled->fd(), POLLIN, 0});
    due = std::min(due, peer.hello_due);
  }
  const Duration left = due - clock_.now();
  const bool at_once = left.us <= 0 || std::exchange(sent_, false);
  const int timeout_ms = at_once ? 0 : static_cast<int>(std::min<int64_t>((left.us + 999) / 1000, 500));
  ::poll(fds.data(), fds.size(), timeout_ms);
  signalfd_siginfo info;
  while (::read(signal_fd, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) on_signal();
}

// Drains: the router is told to send nothing new, and what runs here goes on.
void ControlLoop::on_signal() {
  ++signals_;
  if (signals_ > 1) return;
  log_.info("draining, a second signal ends at once");
  drain_deadline_ = clock_.now() + options_.drain_timeout;
  frame_.add(event_of(wire::DrainingT{}));
}

// ---- Router ----

void ControlLoop::receive_from_router() {
  std::vector<std::unique_ptr<wire::ControlT>> received;
  while (router_->receive(received)) {
  }
  for (const auto& message : received) {
    heard_ = clock_.now();
    if (Status status = handle(*message); !status.ok()) fatal_ = std::move(status);
  }
  log_dropped("frame from the router dropped", *router_);
}

Status ControlLoop::handle(wire::ControlT& message) {
  switch (message.body.type) {
    case wire::Body::Registered:
      return on_registered(*message.body.AsRegistered());
    case wire::Body::Peers:
      on_peers(*message.body.AsPeers());
      break;
    case wire::Body::Start:
      on_start(*message.body.AsStart());
      break;
    case wire::Body::Abort: {
      const wire::AbortT& abort = *message.body.AsAbort();
      ports_.engine.post(AbortRequest{{SequenceId(abort.sequence), Epoch(abort.epoch)}});
      break;
    }
    case wire::Body::Drain:
      if (signals_ == 0) on_signal();
      break;
    case wire::Body::Heartbeat:
      break;
    default:
      log_.warn("unexpected message from the router");
      break;
  }
  return {};
}

Status ControlLoop::on_registered(const wire::RegisteredT& answer) {
  if (!answer.accepted) {
    if (answer.final) {
      return fail(Error::kIncompatible,
                  "the router at " + options_.router_endpoint + " refused this node: " + answer.reason);
    }
    // Answers to what was sent before the last registration may still come; the one under way counts.
    if (registered_) drop_registration(answer.reason.c_str());
    return {};
  }
  for (auto& [identity, peer] : peers_) peer.reported_as = 0;
  log_.info("registered", "node", answer.node_id);
  registered_ = true;
  if (answer.heartbeat_ms > 0) options_.heartbeat_period = Duration::from_ms(answer.heartbeat_ms);
  if (answer.dead_after_ms > 0) options_.dead_after = Duration::from_ms(answer.dead_after_ms);
  frame_due_ = clock_.now();
  return {};
}

void ControlLoop::on_peers(const wire::PeersT& message) {
  std::map<PeerIdentity, Peer> kept;
  for (const auto& told : message.peers) {
    const PeerIdentity identity = wire::node_identity(told->name, told->incarnation);
    const auto known = peers_.find(identity);
    Peer& peer = kept[identity];
    if (known != peers_.end()) peer = std::move(known->second);
    peer.node_id = told->node_id;
    peer.address = told->peer_address;
  }
  for (auto& [identity, peer] : peers_) {
    // The router may have lost a node that still lives: its connection ends when the peer's process or its
    // heartbeats do, not by what the router says.
    if (kept.contains(identity) || !peer.connected) continue;
    peer.node_id = 0;
    kept[identity] = std::move(peer);
  }
  peers_ = std::move(kept);
  for (const auto& [identity, pair] : pairs_) report_pair(pair);
  for (auto& [identity, peer] : peers_) report_refusal(peer);
}

void ControlLoop::on_start(const wire::StartT& start) {
  auto request = start_request_of(start, static_cast<int32_t>(options_.registration.capability->vocab));
  if (request.ok()) {
    for (const auto& [identity, peer] : peers_) {
      if (peer.node_id == start.decode_node && peer.node_id != 0) request->decode_peer = identity;
    }
    ports_.engine.post(std::move(*request));
    return;
  }
  wire::SequenceFailedT failed;
  failed.sequence = start.sequence;
  failed.epoch = start.epoch;
  failed.code = wire::ErrorCode::InvalidArgument;
  failed.message = request.message();
  frame_.add(event_of(std::move(failed)));
}

void ControlLoop::register_now() {
  frame_.restart();
  wire::RegisterT registration = options_.registration;
  const Status sent = router_->send(wire::control_of(std::move(registration)));
  sent_ = true;
  const TimePoint now = clock_.now();
  register_due_ = now + (sent.ok() ? kRegisterRetry : kConnectRetry);
  if (sent.ok() || now < unreachable_told_ + kUnreachableEvery) return;
  unreachable_told_ = now;
  log_.warn("router not reachable, trying on: is it running, and is router.control right?", "router",
            options_.router_endpoint, "reason", sent.message());
}

void ControlLoop::drop_registration(const char* why) {
  log_.warn("router lost, its requests are aborted", "reason", why);
  registered_ = false;
  ports_.engine.post(AbortAll{});
  register_due_ = clock_.now();
}

// Silence: the connection may be dead without saying so, and what waits in it is of no use to a router that
// comes back.
void ControlLoop::lose_router() {
  drop_registration("no heartbeat");
  if (const Status status = router_->redial(); !status.ok()) log_.error("redial", "reason", status.message());
}

void ControlLoop::tick_router(TimePoint now) {
  if (registered_ && now - heard_ > options_.dead_after) lose_router();
  if (!registered_) {
    if (now >= register_due_) register_now();
    return;
  }
  if (frame_.has_news() || now >= frame_due_) send_frame();
}

void ControlLoop::send_frame() {
  const Status sent = router_->send(wire::control_of(frame_.take()));
  sent_ = true;
  frame_due_ = clock_.now() + options_.heartbeat_period;
  if (!sent.ok())
    drop_registration(sent.message().c_str());  // a gap in the numbers: the router could not go on
}

// ---- Other threads ----

void ControlLoop::receive_messages() {
  ports_.control.take(messages_);
  for (ControlMessage& message : messages_) {
    if (auto* report = std::get_if<StepReport>(&message)) {
      frame_.add(std::move(*report));
    } else if (auto* event = std::get_if<NodeEvent>(&message)) {
      frame_.add(std::move(event->event));
    } else if (const auto* ready = std::get_if<PairReady>(&message)) {
      on_pair_ready(*ready);
    } else {
      on_pair_broken(std::get<PairBroken>(message));
    }
  }
}

bool ControlLoop::idle() const {
  const scheduler::BatchLoad& load = frame_.load();
  // Without a router there is nobody to tell the news.
  return load.running == 0 && load.waiting == 0 && load.reserved == 0 && load.blocks_leased == 0 &&
         (!registered_ || !frame_.has_news());
}

}  // namespace penstock
