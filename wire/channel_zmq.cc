#include "wire/channel_zmq.h"

#include "wire/handshake_zmq.h"
#include "wire/socket_zmq.h"

namespace penstock::wire {
namespace {

constexpr size_t kDroppedKept = 64;
constexpr size_t kRefusedKept = 256;
constexpr std::chrono::seconds kRefusedEvery{10};  // a node without the right keys dials on for ever

// All nodes of a cluster have one key pair.
ChannelOptions for_peers(ChannelOptions options) {
  options.curve.server_key = options.curve.client_key = options.curve.public_key;
  return options;
}

}  // namespace

std::string node_identity(std::string_view name, uint64_t incarnation) {
  return std::string(name) + '/' + std::to_string(incarnation);
}

Channel::Channel(Context& context, ChannelOptions options)
    : context_(context), options_(std::move(options)) {}
Channel::~Channel() = default;

int Channel::fd() const { return socket_->fd(); }

std::vector<DroppedFrame> Channel::take_dropped() { return std::exchange(dropped_, {}); }

std::vector<std::string> Channel::take_refused() {
  std::vector<std::string> told;
  const auto now = std::chrono::steady_clock::now();
  if (refused_.size() > kRefusedKept) refused_.clear();
  for (std::string& reason : socket_->take_refused()) {
    const auto [last, is_new] = refused_.emplace(reason, now);
    if (!is_new && now - last->second < kRefusedEvery) continue;
    last->second = now;
    told.push_back(std::move(reason));
  }
  return told;
}

void Channel::drop(std::string identity, std::string reason) {
  ++counts_.dropped;
  if (dropped_.size() == kDroppedKept) dropped_.erase(dropped_.begin());
  dropped_.push_back({std::move(identity), std::move(reason)});
}

bool Channel::receive_frame(bool has_identity, std::string& identity, std::string& bytes) {
  while (true) {
    std::string parts[2];
    const int count = has_identity ? 2 : 1;
    const auto received = socket_->receive(parts, count);
    if (received == ZmqSocket::Received::kNothing) return false;
    if (has_identity) identity = std::move(parts[0]);
    if (received == ZmqSocket::Received::kBadParts) {
      drop(identity, "message does not have " + std::to_string(count) + " parts");
      continue;
    }
    bytes = std::move(parts[count - 1]);
    ++counts_.received;
    return true;
  }
}

Status Channel::send_frame(const std::string* identity, std::string_view bytes) {
  const std::string_view parts[2] = {identity != nullptr ? std::string_view(*identity) : bytes, bytes};
  Status sent = socket_->send(parts, identity != nullptr ? 2 : 1);
  ++(sent.ok() ? counts_.sent : counts_.send_failed);
  return sent;
}

// ---- router and node ----

Result<std::unique_ptr<RouterChannel>> RouterChannel::bind(Context& context, const std::string& endpoint,
                                                           ChannelOptions options) {
  std::unique_ptr<RouterChannel> channel(new RouterChannel(context, std::move(options)));
  ASSIGN_OR_RETURN(channel->socket_, ZmqSocket::open(context, ZMQ_ROUTER, "", channel->options_));
  ASSIGN_OR_RETURN(channel->endpoint_, channel->socket_->bind(endpoint));
  return channel;
}

bool RouterChannel::receive(std::vector<FromNode>& out, size_t limit) {
  std::string identity, bytes;
  for (size_t i = 0; i < limit; ++i) {
    if (!receive_frame(true, identity, bytes)) return false;
    auto message = decode_control(bytes);
    if (!message.ok()) {
      drop(identity, message.message());
      continue;
    }
    out.push_back({identity, std::move(*message)});
  }
  return true;
}

Status RouterChannel::send(const std::string& identity, const ControlT& message) {
  return send_frame(&identity, encode_control(message));
}

Result<std::unique_ptr<NodeChannel>> NodeChannel::dial(Context& context, const std::string& endpoint,
                                                       const std::string& identity, ChannelOptions options) {
  std::unique_ptr<NodeChannel> channel(new NodeChannel(context, std::move(options)));
  channel->endpoint_ = endpoint;
  channel->identity_ = identity;
  RETURN_IF_ERROR(channel->open());
  return channel;
}

Status NodeChannel::open() {
  ASSIGN_OR_RETURN(socket_, ZmqSocket::open(context_, ZMQ_DEALER, identity_, options_));
  return socket_->connect(endpoint_);
}

Status NodeChannel::redial() {
  if (socket_ != nullptr) socket_->discard_queued();
  socket_.reset();
  return open();
}

bool NodeChannel::receive(std::vector<std::unique_ptr<ControlT>>& out, size_t limit) {
  std::string identity, bytes;
  for (size_t i = 0; i < limit; ++i) {
    if (!receive_frame(false, identity, bytes)) return false;
    auto message = decode_control(bytes);
    if (!message.ok()) {
      drop(endpoint_, message.message());
      continue;
    }
    out.push_back(std::move(*message));
  }
  return true;
}

Status NodeChannel::send(const ControlT& message) {
  Status sent = send_frame(nullptr, encode_control(message));
  if (sent.ok() || sent.code() != Error::kResourceExhausted) return sent;
  socket_->take_refused();
  const std::string& why = socket_->last_handshake_failure();
  return fail(Error::kUnavailable, "router at " + endpoint_ + ": " + (why.empty() ? sent.message() : why));
}

// ---- peers ----

Result<std::unique_ptr<PeerServer>> PeerServer::bind(Context& context, const std::string& host,
                                                     const std::string& advertised_host, FrameCheck check,
                                                     ChannelOptions options) {
  std::unique_ptr<PeerServer> channel(new PeerServer(context, for_peers(std::move(options))));
  channel->check_ = check;
  ASSIGN_OR_RETURN(channel->socket_, ZmqSocket::open(context, ZMQ_ROUTER, "", channel->options_));
  ASSIGN_OR_RETURN(const std::string bound, channel->socket_->bind("tcp://" + host + ":0"));
  const std::string port = bound.substr(bound.rfind(':'));
  channel->endpoint_ = "tcp://" + (advertised_host.empty() ? host : advertised_host) + port;
  return channel;
}

bool PeerServer::receive(std::vector<FromPeer>& out, size_t limit) {
  FromPeer peer;
  for (size_t i = 0; i < limit; ++i) {
    if (!receive_frame(true, peer.identity, peer.bytes)) return false;
    if (const char* what = check_(peer.bytes)) {
      drop(peer.identity, what);
      continue;
    }
    out.push_back(std::move(peer));
  }
  return true;
}

Status PeerServer::send(const std::string& identity, std::string_view bytes) {
  return send_frame(&identity, bytes);
}

Result<std::unique_ptr<PeerClient>> PeerClient::dial(Context& context, const std::string& endpoint,
                                                     const std::string& identity, FrameCheck check,
                                                     ChannelOptions options) {
  std::unique_ptr<PeerClient> channel(new PeerClient(context, for_peers(std::move(options))));
  channel->check_ = check;
  ASSIGN_OR_RETURN(channel->socket_, ZmqSocket::open(context, ZMQ_DEALER, identity, channel->options_));
  RETURN_IF_ERROR(channel->socket_->connect(endpoint));
  return channel;
}

bool PeerClient::receive(std::vector<std::string>& out, size_t limit) {
  std::string identity, bytes;
  for (size_t i = 0; i < limit; ++i) {
    if (!receive_frame(false, identity, bytes)) return false;
    if (const char* what = check_(bytes)) {
      drop("peer", what);
      continue;
    }
    out.push_back(std::move(bytes));
  }
  return true;
}

Status PeerClient::send(std::string_view bytes) { return send_frame(nullptr, bytes); }

}  // namespace penstock::wire
