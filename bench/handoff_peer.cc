#include "bench/handoff_peer.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fabric/transport_ucx.h"

namespace penstock::bench {
namespace {
constexpr Duration kPatience = Duration::from_ms(20000);
}

Result<std::unique_ptr<HandoffPeer>> HandoffPeer::make(int channel, const std::string& transports,
                                                       const KvLayout& layout, uint32_t pool_blocks) {
  auto peer = std::unique_ptr<HandoffPeer>(new HandoffPeer);
  peer->channel_ = channel;
  ASSIGN_OR_RETURN(peer->transport_, make_ucx_transport({transports}));
  peer->pool_.layout = layout;
  peer->pool_.blocks = pool_blocks;
  ASSIGN_OR_RETURN(peer->pool_.memory,
                   peer->transport_->allocate(static_cast<size_t>(layout.pool_bytes(pool_blocks))));
  peer->capability_.model = "bench";
  peer->capability_.layout = layout;
  peer->monitor_ = std::make_unique<PeerMonitor>(*peer->transport_, HeartbeatOptions());
  return peer;
}

Status HandoffPeer::connect() {
  PeerHello hello;
  hello.node = "bench";
  hello.address = transport_->address();
  hello.capability = capability_;
  hello.probe = pool_.memory.descriptor();
  RETURN_IF_ERROR(send(encode_hello(hello)));
  ASSIGN_OR_RETURN(const std::string answer, receive());
  ASSIGN_OR_RETURN(const PeerHello theirs, decode_hello(answer));
  RETURN_IF_ERROR(check_hello(hello, theirs));
  ASSIGN_OR_RETURN(peer_, transport_->connect(theirs.address));
  ASSIGN_OR_RETURN(peer_pool_, transport_->import_memory(peer_, theirs.probe));
  monitor_->add(clock_.now(), peer_);
  return run_until([this] { return monitor_->established(peer_); });
}

Status HandoffPeer::run_until(const std::function<bool()>& done, const std::function<bool(TimePoint)>& poll) {
  const TimePoint end = clock_.now() + kPatience;
  while (!done()) {
    bool busy = transport_->progress();
    const TimePoint now = clock_.now();
    if (poll) busy |= poll(now);
    monitor_->tick(now);
    if (now > end)
      return fail(Error::kDeadlineExceeded, "the other process of the benchmark does not answer");
    if (busy || done() || !transport_->arm()) continue;
    pollfd waiting[3] = {{transport_->event_fd(), POLLIN, 0}, {channel_, POLLIN, 0}, {extra_fd_, POLLIN, 0}};
    ::poll(waiting, 3, 50);
  }
  return {};
}

Status HandoffPeer::send(const std::string& message) const {
  if (::send(channel_, message.data(), message.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(message.size()))
    return {};
  return fail(Error::kUnavailable,
              std::string("the other process of the benchmark is gone: ") + std::strerror(errno));
}

Result<std::string> HandoffPeer::receive() const {
  std::string message(1 << 16, '\0');
  pollfd entry{channel_, POLLIN, 0};
  const bool came = ::poll(&entry, 1, static_cast<int>(kPatience.ms())) == 1;
  const ssize_t length = came ? ::recv(channel_, message.data(), message.size(), 0) : -1;
  if (length <= 0) return fail(Error::kUnavailable, "the other process of the benchmark is gone");
  message.resize(static_cast<size_t>(length));
  return message;
}

bool HandoffPeer::has_message() const {
  pollfd entry{channel_, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

}  // namespace penstock::bench
