// A ControlLoop on a thread of its own, and the router that it talks to: real channels over loopback, driven
// by the test. Time is the system's plus what the test adds.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/log.h"
#include "node/control_loop.h"

namespace penstock {

class ShiftedClock final : public Clock {
 public:
  TimePoint now() const override { return system_.now() + Duration{shift_us_.load()}; }
  void advance(Duration by) { shift_us_ += by.us; }

 private:
  SystemClock system_;
  std::atomic<int64_t> shift_us_{0};
};

// Until `done()`, sleeping on descriptors meanwhile; false when patience ends, which only a failing test
// sees.
template <typename Done>
bool eventually(int fd, Done done) {
  constexpr Duration kPatience = Duration::from_ms(20'000);
  const SystemClock clock;
  for (const TimePoint end = clock.now() + kPatience; !done();) {
    if (clock.now() > end) return false;
    pollfd waiting{fd, POLLIN, 0};
    ::poll(&waiting, 1, 5);  // a channel's descriptor may stay silent although something came
  }
  return true;
}

// Signals as a pipe of what a signalfd would bring.
class FakeSignals {
 public:
  FakeSignals() {
    int ends[2];
    CHECK_EQ(::pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    read_ = UniqueFd(ends[0]);
    write_ = UniqueFd(ends[1]);
  }
  int fd() const { return read_.get(); }
  void raise() {
    const signalfd_siginfo info{};
    CHECK_EQ(::write(write_.get(), &info, sizeof(info)), static_cast<ssize_t>(sizeof(info)));
  }

 private:
  UniqueFd read_, write_;
};

inline PeerHello hello_of(const std::string& node, uint64_t incarnation) {
  PeerHello hello;
  hello.node = node;
  hello.incarnation = incarnation;
  hello.address.identity.library = "memory";
  hello.address.identity.instance = incarnation;
  hello.capability.model = "tiny";
  hello.capability.layout = {2, 2, 16, 16, KvDtype::kBf16};
  hello.capability.vocab = 100;
  return hello;
}

inline ControlOptions control_options(const std::string& name, wire::Role role, const std::string& router) {
  ControlOptions options;
  options.router_endpoint = router;
  options.listen_host = "127.0.0.1";
  options.registration.name = name;
  options.registration.role = role;
  options.registration.protocol = wire::kProtocolVersion;
  options.registration.incarnation = role == wire::Role::Prefill ? 11 : 22;
  options.registration.capability = std::make_unique<wire::CapabilityT>();
  options.registration.capability->vocab = 100;
  options.registration.capacity = std::make_unique<wire::CapacityT>();
  options.hello = hello_of(name, options.registration.incarnation);
  options.heartbeat_period = Duration::from_ms(20);
  options.channel.reconnect = options.channel.reconnect_max = Duration::from_ms(10);
  return options;
}

// The other threads of the node are the test's: it reads `ports.engine` and `ports.transfer`.
class RunningLoop {
 public:
  explicit RunningLoop(ControlOptions options, Logger log = {})
      : identity(wire::node_identity(options.registration.name, options.registration.incarnation)),
        loop_(std::move(options), ports, clock, std::move(log)),
        thread_([this] {
          status_ = loop_.run(signals_.fd());
          ended_.notify();
        }) {}
  ~RunningLoop() {
    if (thread_.joinable()) static_cast<void>(stop());
  }
  // Two signals end it at once.
  Status stop() {
    signals_.raise();
    signals_.raise();
    return join();
  }
  Status join() {
    thread_.join();
    return status_;
  }
  void signal() { signals_.raise(); }
  bool ended() const {
    pollfd waiting{ended_.fd(), POLLIN, 0};
    return ::poll(&waiting, 1, 0) == 1;
  }
  void pass(Duration time) {
    clock.advance(time);
    ports.control.nudge();
  }

  // The next message to the engine (transfer) thread of the given kind; others before it are dropped.
  template <typename Message>
  std::optional<Message> next_engine() {
    return next<Message>(ports.engine, engine_);
  }
  template <typename Message>
  std::optional<Message> next_transfer() {
    return next<Message>(ports.transfer, transfer_);
  }
  size_t pending_transfer() {
    gather(ports.transfer, transfer_);
    return transfer_.size();
  }

  const PeerIdentity identity;
  ShiftedClock clock;
  NodePorts ports;

 private:
  template <typename Any>
  static void gather(Inbox<Any>& inbox, std::vector<Any>& pending) {
    std::vector<Any> fresh;
    inbox.take(fresh);
    for (Any& message : fresh) pending.push_back(std::move(message));
  }
  template <typename Message, typename Any>
  std::optional<Message> next(Inbox<Any>& inbox, std::vector<Any>& pending) {
    std::optional<Message> found;
    eventually(inbox.fd(), [&] {
      gather(inbox, pending);
      while (!pending.empty() && !found) {
        if (auto* message = std::get_if<Message>(&pending.front())) found = std::move(*message);
        pending.erase(pending.begin());
      }
      return found.has_value();
    });
    return found;
  }

  FakeSignals signals_;
  WakeEvent ended_;
  std::vector<EngineMessage> engine_;
  std::vector<TransferMessage> transfer_;
  Status status_;
  ControlLoop loop_;
  std::thread thread_;
};

// What nodes said, and the verbs of a router.
class TestRouter {
 public:
  TestRouter() { bind("tcp://127.0.0.1:0"); }

  const std::string& endpoint() const { return endpoint_; }
  void stop() {
    channel_.reset();
    known_.clear();
  }
  void bind(const std::string& endpoint) {
    ASSERT_TRUE(eventually(-1, [&] {
      auto channel = wire::RouterChannel::bind(context_, endpoint);
      if (channel.ok()) channel_ = std::move(*channel);
      return channel_ != nullptr;
    }));
    endpoint_ = channel_->endpoint();
  }
  void restart() {
    stop();
    bind(std::string(endpoint_));
  }

  // Takes what has come.
  void receive() {
    std::vector<wire::FromNode> got;
    while (channel_->receive(got)) {
    }
    for (wire::FromNode& from : got) {
      if (auto* registration = from.message->body.AsRegister()) {
        ++registers;
        registered = std::move(*registration);
        known_.insert(from.identity);
        last_frame_no[from.identity] = 0;
      } else if (!known_.contains(from.identity)) {
        wire::RegisteredT refusal;  // as the router does: a node of its earlier life
        refusal.reason = "not registered here; register again";
        send(from.identity, std::move(refusal));
      } else if (auto* frame = from.message->body.AsFrame()) {
        gap = gap || frame->frame_no != last_frame_no[from.identity] + 1;
        last_frame_no[from.identity] = frame->frame_no;
        on_frame(*frame);
      }
    }
  }
  template <typename Done>
  [[nodiscard]] bool wait(Done done) {
    return eventually(channel_->fd(), [&] {
      receive();
      return done();
    });
  }
  // The next Register of anybody, which is then in `registered`.
  [[nodiscard]] bool wait_register() {
    const int before = registers;
    return wait([&] { return registers > before; });
  }
  template <typename Body>
  void send(const PeerIdentity& to, Body body) {
    const Status sent = channel_->send(to, wire::control_of(std::move(body)));
    EXPECT_TRUE(sent.ok()) << sent.message();
  }
  void send_malformed(const PeerIdentity& to) {
    EXPECT_TRUE(channel_->send(to, wire::ControlT()).ok());  // an envelope without a letter
  }
  void accept(const PeerIdentity& who, uint32_t node_id) {
    wire::RegisteredT answer;
    answer.accepted = true;
    answer.node_id = node_id;
    send(who, std::move(answer));
  }
  struct Listed {
    uint32_t node_id;
    std::string name;
    uint64_t incarnation;
    std::string address;
  };
  void list(const PeerIdentity& to, const std::vector<Listed>& peers) {
    wire::PeersT message;
    for (const Listed& listed : peers) {
      auto peer = std::make_unique<wire::PeerT>();
      peer->node_id = listed.node_id;
      peer->name = listed.name;
      peer->incarnation = listed.incarnation;
      peer->peer_address = listed.address;
      message.peers.push_back(std::move(peer));
    }
    send(to, std::move(message));
  }
  // Everything `node` was told before this call has been handled, and what it said of it is here.
  [[nodiscard]] bool fence(RunningLoop& node) {
    wire::AbortT abort;
    abort.sequence = ++fences_;
    send(node.identity, std::move(abort));
    const auto aborted = node.next_engine<AbortRequest>();
    if (!aborted || aborted->key.sequence.value() != fences_) return false;
    wire::AbortedT answer;
    answer.sequence = fences_;
    node.ports.control.post(NodeEvent{event_of(std::move(answer))});
    return wait([&] { return last_aborted == fences_; });
  }

  int registers = 0;
  wire::RegisterT registered;
  uint64_t frames = 0, last_aborted = 0;
  std::map<PeerIdentity, uint64_t> last_frame_no;
  bool gap = false;  // frame numbers of one registration did not follow each other
  std::vector<wire::PairUpT> ups;
  std::vector<wire::PairDownT> downs;
  std::vector<wire::SequenceFailedT> failures;
  int drainings = 0;

 private:
  void on_frame(wire::FrameT& frame) {
    ++frames;
    for (wire::EventUnion& event : frame.events) {
      if (auto* up = event.AsPairUp()) ups.push_back(std::move(*up));
      if (auto* down = event.AsPairDown()) downs.push_back(std::move(*down));
      if (auto* failed = event.AsSequenceFailed()) failures.push_back(std::move(*failed));
      if (const auto* aborted = event.AsAborted()) last_aborted = aborted->sequence;
      if (event.AsDraining() != nullptr) ++drainings;
    }
  }

  wire::Context context_;
  std::unique_ptr<wire::RouterChannel> channel_;
  std::string endpoint_;
  std::set<PeerIdentity> known_;
  uint64_t fences_ = 0;
};

// Everything written to stderr while it lives.
class CapturedLog {
 public:
  CapturedLog() { testing::internal::CaptureStderr(); }
  ~CapturedLog() {
    if (!taken_) take();
  }
  std::string take() {
    taken_ = true;
    return testing::internal::GetCapturedStderr();
  }

 private:
  bool taken_ = false;
};

inline int count_of(const std::string& text, const std::string& what) {
  int count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

inline Logger log_of(const std::string& name) { return Logger::to_stderr(name, LogLevel::kWarning); }

}  // namespace penstock
