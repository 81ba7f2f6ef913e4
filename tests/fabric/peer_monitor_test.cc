// Heartbeats between two monitors over the in-memory network, on a clock that stands still until moved.
#include "fabric/peer_monitor.h"

#include <gtest/gtest.h>

#include "fabric/transport_memory.h"

namespace penstock {
namespace {

using Kind = PeerMonitorEvent::Kind;

class PeerMonitorPair : public testing::Test {
 protected:
  struct Side {
    std::unique_ptr<Transport> transport;
    std::unique_ptr<PeerMonitor> monitor;
    PeerId peer;
    bool running = true;
    std::vector<Kind> events;
    int heartbeats_sent = 0;
  };

  PeerMonitorPair() {
    clock_.set({5'000'000});
    for (Side* side : {&a_, &b_}) {
      side->transport = network_.make_transport();
      side->monitor = std::make_unique<PeerMonitor>(*side->transport, options_);
    }
    a_.peer = *a_.transport->connect(b_.transport->address());
    b_.peer = *b_.transport->connect(a_.transport->address());
    network_.set_filter([this](uint64_t from, uint64_t, MessageType type, std::span<const std::byte> body) {
      EXPECT_EQ(type, MessageType::kHeartbeat);
      EXPECT_EQ(body.size(), 1u);
      Side& side = from == a_.transport->address().identity.instance ? a_ : b_;
      side.heartbeats_sent += 1;
      return &side == &a_ ? deliver_from_a_ : deliver_from_b_;
    });
  }
  ~PeerMonitorPair() override {
    for (Side* side : {&a_, &b_}) {
      side->monitor.reset();
      side->transport.reset();
    }
  }

  void add_both() {
    a_.monitor->add(clock_.now(), a_.peer);
    b_.monitor->add(clock_.now(), b_.peer);
  }
  void turn() {
    for (Side* side : {&a_, &b_}) {
      if (!side->running) continue;
      network_.deliver_all();
      while (side->transport->progress()) {
      }
      side->monitor->tick(clock_.now());
      for (const PeerMonitorEvent& event : side->monitor->take_events()) {
        EXPECT_EQ(event.peer, side->peer);
        side->events.push_back(event.kind);
      }
    }
  }
  void pass(int64_t ms) {
    for (int64_t passed = 0; passed < ms; passed += 50) {
      clock_.advance(Duration::from_ms(50));
      turn();
    }
  }
  void settle() {
    for (int i = 0; i < 8; ++i) turn();
  }

  HeartbeatOptions options_{Duration::from_ms(200), Duration::from_ms(2000), Duration::from_ms(5000)};
  ManualClock clock_;
  MemoryNetwork network_{{}};
  Side a_, b_;
  bool deliver_from_a_ = true, deliver_from_b_ = true;
};

TEST_F(PeerMonitorPair, EstablishedOnceBothDirectionsWorkWithoutWaitingAPeriod) {
  add_both();
  EXPECT_FALSE(a_.monitor->established(a_.peer));
  settle();  // no time passes: the first word is answered at once
  EXPECT_EQ(a_.events, std::vector{Kind::kEstablished});
  EXPECT_EQ(b_.events, std::vector{Kind::kEstablished});
  EXPECT_TRUE(a_.monitor->established(a_.peer));
  pass(10000);
  EXPECT_EQ(a_.events.size(), 1u) << "once for each connection";
  EXPECT_EQ(b_.events.size(), 1u);
}

TEST_F(PeerMonitorPair, OneHeartbeatForEachPeriod) {
  add_both();
  settle();
  const int before = a_.heartbeats_sent;
  EXPECT_LE(before, 4) << "the answers at the start must not answer each other for ever";
  pass(10000);
  EXPECT_EQ(a_.heartbeats_sent - before, 50);
}

TEST_F(PeerMonitorPair, StoppedPeerIsSilentAfterTheDeadlineAndNotBefore) {
  add_both();
  settle();
  b_.running = false;
  pass(1900);
  EXPECT_FALSE(a_.monitor->silent(a_.peer));
  pass(200);
  EXPECT_TRUE(a_.monitor->silent(a_.peer));
  pass(20000);
  EXPECT_EQ(a_.events, (std::vector{Kind::kEstablished, Kind::kSilent})) << "said once";
}

TEST_F(PeerMonitorPair, LateHeartbeatWithinTheDeadlineIsNoSilence) {
  add_both();
  settle();
  for (int round = 0; round < 5; ++round) {
    deliver_from_b_ = false;  // eight periods lost, then two heartbeats
    pass(1600);
    deliver_from_b_ = true;
    pass(400);
  }
  EXPECT_EQ(a_.events, std::vector{Kind::kEstablished});
}

TEST_F(PeerMonitorPair, SilentPeerThatWakesIsHeardAgainAndMayFallSilentAgain) {
  add_both();
  settle();
  b_.running = false;
  pass(3000);
  b_.running = true;
  pass(400);
  EXPECT_FALSE(a_.monitor->silent(a_.peer));
  EXPECT_TRUE(a_.monitor->established(a_.peer));
  b_.running = false;
  pass(3000);
  EXPECT_EQ(a_.events, (std::vector{Kind::kEstablished, Kind::kSilent, Kind::kHeardAgain, Kind::kSilent}));
}

// The one that slept finds the other's heartbeats waiting: it must not declare the peer dead for its own nap.
TEST_F(PeerMonitorPair, OwnPauseIsNotThePeersSilence) {
  add_both();
  settle();
  a_.running = false;
  pass(3000);
  a_.running = true;
  pass(1000);
  EXPECT_EQ(a_.events, std::vector{Kind::kEstablished});
  EXPECT_EQ(b_.events, (std::vector{Kind::kEstablished, Kind::kSilent, Kind::kHeardAgain}));
}

TEST_F(PeerMonitorPair, OneDirectionAloneEstablishesNothing) {
  deliver_from_b_ = false;
  add_both();
  pass(4950);
  EXPECT_TRUE(a_.events.empty());
  EXPECT_TRUE(b_.events.empty()) << "b hears a, but a does not hear b";
  pass(10000);
  EXPECT_EQ(a_.events, std::vector{Kind::kNoReply});
  EXPECT_EQ(b_.events, std::vector{Kind::kNoReply});
}

TEST_F(PeerMonitorPair, PeerThatNeverSpeaksGetsNoReplyOnceAndNoSilence) {
  b_.running = false;
  a_.monitor->add(clock_.now(), a_.peer);
  pass(20000);
  EXPECT_EQ(a_.events, std::vector{Kind::kNoReply});
  EXPECT_FALSE(a_.monitor->established(a_.peer));
}

// A dead process does not come back: its next life is another instance with a connection of its own.
TEST_F(PeerMonitorPair, DeadPeerIsNotRevivedByItsNextLife) {
  add_both();
  settle();
  network_.kill(b_.transport->address().identity.instance);
  b_.running = false;
  pass(3000);
  EXPECT_TRUE(a_.monitor->silent(a_.peer));
  const auto next = network_.make_transport();
  PeerMonitor next_monitor(*next, options_);
  next_monitor.add(clock_.now(), *next->connect(a_.transport->address()));
  for (int i = 0; i < 60; ++i) {
    next_monitor.tick(clock_.now());
    pass(100);
  }
  EXPECT_TRUE(a_.monitor->silent(a_.peer))
      << "heartbeats of a process without a connection here count for nobody";
  EXPECT_EQ(a_.events, (std::vector{Kind::kEstablished, Kind::kSilent}));
}

TEST_F(PeerMonitorPair, RemovedPeerIsNeitherSentToNorReported) {
  add_both();
  settle();
  a_.monitor->remove(a_.peer);
  const int before = a_.heartbeats_sent;
  b_.running = false;
  pass(5000);
  EXPECT_EQ(a_.heartbeats_sent, before);
  EXPECT_EQ(a_.events, std::vector{Kind::kEstablished});
  EXPECT_FALSE(a_.monitor->established(a_.peer));
  EXPECT_EQ(a_.monitor->next_deadline(), TimePoint::max());
}

// A loop that sleeps until next_deadline() misses nothing and never spins.
TEST_F(PeerMonitorPair, NextDeadlineIsWhereSomethingIsDue) {
  add_both();
  settle();
  EXPECT_EQ(a_.monitor->next_deadline(), clock_.now() + options_.period);
  b_.running = false;
  const TimePoint heard = clock_.now();
  int turns = 0;
  while (a_.events.size() == 1 && ++turns < 100) {
    const TimePoint next = a_.monitor->next_deadline();
    ASSERT_GT(next, clock_.now());
    clock_.set(next);
    turn();
  }
  EXPECT_EQ(a_.events.back(), Kind::kSilent);
  EXPECT_EQ(clock_.now(), heard + options_.dead_after);
  EXPECT_LE(turns, 11) << "ten heartbeats in two seconds";
}

}  // namespace
}  // namespace penstock
