#include "tests/fabric/ucx_side.h"

#include <algorithm>

#include "fabric/transport_ucx.h"

namespace penstock {
namespace {

constexpr Duration kPatience = Duration::from_ms(30000);

template <typename T>
T must(Result<T> result) {
  if (!result.ok()) check_failed(__FILE__, __LINE__, "must", result.message());
  return std::move(result).value();
}

}  // namespace

UcxSide::UcxSide(Channel& to_parent, const std::string& transports) : channel(to_parent) {
  transport = must(make_ucx_transport({transports}));
  memory = must(transport->allocate(kBytes));
  HeartbeatOptions heartbeats;
  heartbeats.first_reply = kPatience;
  monitor_ = std::make_unique<PeerMonitor>(*transport, heartbeats);
  transport->set_message_handler(MessageType::kToReceiver, [this](PeerId, std::span<const std::byte> body) {
    words.emplace_back(reinterpret_cast<const char*>(body.data()), body.size());
  });
  transport->add_peer_failed_listener([this](PeerId failed, const Failure&) {
    monitor_->remove(failed);
    failures += 1;
  });
  PeerHello ours;
  ours.address = transport->address();
  ours.probe = memory.descriptor();
  channel.send(encode_hello(ours));
}

Result<PeerId> UcxSide::try_connect() {
  const auto hello = channel.receive();
  CHECK(hello.has_value());
  theirs = must(decode_hello(*hello));
  if (transport->address().identity.instance > theirs.address.identity.instance) {
    for (int i = 0; i < 10; ++i) {
      while (transport->progress()) {
      }
      ::poll(nullptr, 0, 2);
    }
  }
  return transport->connect(theirs.address);
}

void UcxSide::connect() {
  peer = must(try_connect());
  monitor_->add(clock_.now(), peer);
  run_until([this] { return monitor_->established(peer); });
  remote = must(transport->import_memory(peer, theirs.probe));
}

void UcxSide::run_until(const std::function<bool()>& done) {
  const TimePoint end = clock_.now() + kPatience;
  while (!done()) {
    CHECK_LT(clock_.now(), end);
    const bool busy = transport->progress();
    monitor_->tick(clock_.now());
    if (busy || done() || !transport->arm()) continue;
    pollfd waiting[2] = {{transport->event_fd(), POLLIN, 0}, {channel.fd(), POLLIN, 0}};
    ::poll(waiting, 2, 20);
  }
}

void UcxSide::sleep_once() {
  while (transport->progress()) {
  }
  if (!transport->arm()) return;
  pollfd waiting{transport->event_fd(), POLLIN, 0};
  CHECK_EQ(::poll(&waiting, 1, static_cast<int>(kPatience.ms())), 1);  // woken, not timed out
}

void UcxSide::say(const std::string& word) {
  const Status sent = transport->send_message(peer, MessageType::kToReceiver, std::as_bytes(std::span(word)));
  if (!sent.ok()) check_failed(__FILE__, __LINE__, word, sent.message());
}

void UcxSide::wait_for_word(const std::string& word) {
  run_until([&] { return std::find(words.begin(), words.end(), word) != words.end(); });
}

}  // namespace penstock
