// The in-memory network keeps Transport's contract: what it lets happen is what handoff tests are worth.
#include "fabric/transport_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

namespace penstock {
namespace {

constexpr size_t kBytes = 4096;

class MemoryPair : public testing::Test {
 protected:
  void make(const MemoryNetworkOptions& options = {}) {
    network_ = std::make_unique<MemoryNetwork>(options);
    a_ = network_->make_transport();
    b_ = network_->make_transport();
    source_ = *a_->allocate(kBytes);
    target_ = *b_->allocate(kBytes);
    to_b_ = *a_->connect(b_->address());
    to_a_ = *b_->connect(a_->address());
    remote_ = *a_->import_memory(to_b_, target_.descriptor());
    b_->set_message_handler(MessageType::kToReceiver, [this](PeerId from, std::span<const std::byte> body) {
      EXPECT_EQ(from, to_a_);
      received_.emplace_back(reinterpret_cast<const char*>(body.data()), body.size());
    });
    a_->add_peer_failed_listener([this](PeerId peer, const Failure& failure) {
      EXPECT_EQ(peer, to_b_);
      EXPECT_EQ(failure.code, Error::kUnavailable);
      log_ += "failed;";
    });
  }
  ~MemoryPair() override {
    a_.reset();
    b_.reset();
  }
  Completion note(const std::string& name) {
    return [this, name](const Status& status) {
      log_ += name + (status.ok() ? "" : "(" + std::string(error_name(status.code())) + ")") + ";";
    };
  }
  // One put of `value` into byte `at`.
  Status put(size_t at, int value, Completion done = {}) {
    source_.base[at] = static_cast<std::byte>(value);
    return a_->put(to_b_, source_.base + at, remote_, at, 1, std::move(done));
  }
  Status send(const std::string& text) {
    return a_->send_message(to_b_, MessageType::kToReceiver, std::as_bytes(std::span(text)));
  }
  void run() {
    do {
      while (a_->progress() || b_->progress()) {
      }
    } while (network_->deliver());
  }
  uint64_t instance(const Transport& transport) const { return transport.address().identity.instance; }

  std::unique_ptr<MemoryNetwork> network_;
  std::unique_ptr<Transport> a_, b_;
  LocalMemory source_, target_;
  PeerId to_b_, to_a_;
  RemoteMemoryId remote_;
  std::vector<std::string> received_;
  std::string log_;
};

TEST_F(MemoryPair, PutArrivesAndNothingRunsInsideAVerb) {
  make();
  ASSERT_TRUE(put(7, 42, note("put")).ok());
  ASSERT_TRUE(a_->flush(to_b_, note("flush")).ok());
  EXPECT_EQ(target_.base[7], std::byte{0});
  network_->deliver_all();
  EXPECT_EQ(target_.base[7], std::byte{42});
  EXPECT_EQ(log_, "") << "completions wait for progress()";
  EXPECT_FALSE(a_->arm());
  run();
  EXPECT_EQ(log_, "put;flush;");
  EXPECT_TRUE(a_->arm());
}

TEST_F(MemoryPair, FlushWithNothingPostedCompletesFromProgress) {
  make();
  ASSERT_TRUE(a_->flush(to_b_, note("flush")).ok());
  EXPECT_EQ(log_, "");
  EXPECT_FALSE(a_->arm());
  run();
  EXPECT_EQ(log_, "flush;");
}

// A flush waits for every put before it and for none behind it, in whatever order they land.
TEST_F(MemoryPair, FlushCoversExactlyTheEarlierPuts) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    make({.seed = seed});
    for (size_t i = 0; i < 4; ++i) ASSERT_TRUE(put(i, 1).ok());
    bool flushed = false;
    ASSERT_TRUE(a_->flush(to_b_, [&](const Status& status) { flushed = status.ok(); }).ok());
    for (size_t i = 4; i < 8; ++i) ASSERT_TRUE(put(i, 1).ok());
    while (!flushed) {
      ASSERT_TRUE(network_->deliver());
      const bool all =
          std::all_of(target_.base, target_.base + 4, [](std::byte b) { return b != std::byte{0}; });
      a_->progress();
      ASSERT_EQ(flushed, all) << "seed " << seed;
    }
    a_.reset();
    b_.reset();
  }
}

TEST_F(MemoryPair, SameSeedSameRunAnotherSeedAnother) {
  const auto play = [this](uint64_t seed) {
    make({.seed = seed, .drop_message = 0.2, .duplicate_message = 0.2, .reorder_messages = true});
    received_.clear();
    log_.clear();
    for (int i = 0; i < 20; ++i) {
      static_cast<void>(put(static_cast<size_t>(i), i, note("p" + std::to_string(i))));
      static_cast<void>(send(std::to_string(i)));
    }
    run();
    std::string trace = log_;
    for (const std::string& message : received_) trace += message + ",";
    a_.reset();
    b_.reset();
    return trace;
  };
  const std::string first = play(3);
  EXPECT_EQ(first, play(3));
  EXPECT_NE(first, play(4));
}

TEST_F(MemoryPair, MessagesKeepTheirOrderAndArriveOnce) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    make({.seed = seed});
    received_.clear();
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(send(std::to_string(i)).ok());
    run();
    ASSERT_EQ(received_, (std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}));
    a_.reset();
    b_.reset();
  }
}

TEST_F(MemoryPair, FilterLosesTheMessageItNames) {
  make();
  network_->set_filter([](uint64_t, uint64_t, MessageType, std::span<const std::byte> body) {
    return static_cast<char>(body[0]) != 'x';
  });
  ASSERT_TRUE(send("a").ok());
  ASSERT_TRUE(send("x").ok());
  ASSERT_TRUE(send("b").ok());
  run();
  EXPECT_EQ(received_, (std::vector<std::string>{"a", "b"}));
}

TEST_F(MemoryPair, MessageWithoutAConnectionHereIsDropped) {
  make();
  ASSERT_TRUE(send("x").ok());
  b_->close(to_a_);
  run();
  EXPECT_TRUE(received_.empty());
}

TEST_F(MemoryPair, WhatCanNeverWorkIsInvalid) {
  make();
  const auto code = [this](uint64_t offset, size_t bytes, RemoteMemoryId where) {
    const Status status = a_->put(to_b_, source_.base, where, offset, bytes, note("never"));
    return status.ok() ? Error::kInternal : status.code();
  };
  EXPECT_EQ(code(kBytes, 1, remote_), Error::kInvalidArgument);
  EXPECT_EQ(code(1, kBytes, remote_), Error::kInvalidArgument);
  EXPECT_EQ(code(~uint64_t{0}, 2, remote_), Error::kInvalidArgument);
  EXPECT_EQ(code(0, 1, RemoteMemoryId()), Error::kInvalidArgument);
  EXPECT_EQ(code(0, 1, RemoteMemoryId(99)), Error::kInvalidArgument);
  EXPECT_EQ(network_->in_flight(), 0u);
  const Result<PeerId> twice = a_->connect(b_->address());
  ASSERT_FALSE(twice.ok());
  EXPECT_EQ(twice.code(), Error::kInvalidArgument);
  run();
  EXPECT_EQ(log_, "");
}

TEST_F(MemoryPair, ImportOfEqualDescriptorsIsOneMemory) {
  make();
  EXPECT_EQ(*a_->import_memory(to_b_, target_.descriptor()), remote_);
  MemoryDescriptor part = target_.descriptor();
  part.bytes /= 2;
  EXPECT_NE(*a_->import_memory(to_b_, part), remote_);
}

TEST_F(MemoryPair, DeadPeerFailsOnceAfterAllItsCompletions) {
  make();
  ASSERT_TRUE(put(0, 1, note("put")).ok());
  ASSERT_TRUE(a_->flush(to_b_, note("flush")).ok());
  EXPECT_TRUE(a_->may_write(to_b_));
  network_->kill(instance(*b_));
  EXPECT_FALSE(a_->arm()) << "a failure waits to be told";
  run();
  EXPECT_EQ(log_, "put(unavailable);flush(unavailable);failed;");
  EXPECT_FALSE(a_->may_write(to_b_));
  EXPECT_EQ(a_->connection_to(instance(*b_)), PeerId());
  EXPECT_EQ(a_->instance_of(to_b_), instance(*b_)) << "stays known after failure";
  for (const Status& status : {put(0, 1), a_->flush(to_b_, note("never")), send("x"),
                               Status(a_->import_memory(to_b_, target_.descriptor()).failure()),
                               Status(a_->connect(b_->address()).failure())})
    EXPECT_EQ(status.code(), Error::kUnavailable);
  run();
  EXPECT_EQ(log_, "put(unavailable);flush(unavailable);failed;");
}

// A caller that never runs out of completions must hear of the failure all the same.
TEST_F(MemoryPair, FailureIsToldAlthoughCompletionsNeverEnd) {
  make();
  const auto c = network_->make_transport();
  const PeerId to_c = *a_->connect(c->address());
  std::function<void()> again = [&] { static_cast<void>(a_->flush(to_c, [&](const Status&) { again(); })); };
  again();
  network_->kill(instance(*b_));
  for (int i = 0; i < 10; ++i) a_->progress();
  EXPECT_EQ(log_, "failed;");
}

TEST_F(MemoryPair, CloseCancelsWhatIsOutstandingAndTellsNoListener) {
  make();
  ASSERT_TRUE(put(0, 1, note("put")).ok());
  ASSERT_TRUE(a_->flush(to_b_, note("flush")).ok());
  a_->close(to_b_);
  a_->close(to_b_);
  a_->close(PeerId(77));
  EXPECT_EQ(log_, "") << "from progress(), not from the verb";
  run();
  EXPECT_EQ(log_, "put(cancelled);flush(cancelled);");
}

// Shared memory: our close() proves nothing about what the peer may write.
TEST_F(MemoryPair, ClosedPeerMayWriteUntilItsProcessHasExited) {
  make();
  ASSERT_TRUE(put(0, 1, note("put")).ok());
  b_->close(to_a_);
  EXPECT_TRUE(b_->may_write(to_a_));
  network_->deliver_all();
  EXPECT_EQ(target_.base[0], std::byte{1}) << "close() at the target does not stop a store";
  ASSERT_TRUE(put(1, 1, note("put")).ok());
  network_->kill(instance(*a_));
  EXPECT_FALSE(b_->may_write(to_a_));
  network_->deliver_all();
  EXPECT_EQ(target_.base[1], std::byte{0}) << "an exited process stores nothing";
}

TEST_F(MemoryPair, NetworkLanesEndWithTheTargetsEndpoint) {
  make({.network_lanes = true});
  ASSERT_TRUE(put(0, 1, note("put")).ok());
  EXPECT_TRUE(b_->may_write(to_a_));
  b_->close(to_a_);
  EXPECT_FALSE(b_->may_write(to_a_));
  network_->deliver_all();
  EXPECT_EQ(target_.base[0], std::byte{0});
}

// A new endpoint does not let puts in that were on their way to the old one: its memory may be another's.
TEST_F(MemoryPair, NetworkLanesKeepOldPutsOutOfANewConnection) {
  make({.network_lanes = true});
  ASSERT_TRUE(put(0, 1, note("put")).ok());
  b_->close(to_a_);
  to_a_ = *b_->connect(a_->address());
  network_->deliver_all();
  EXPECT_EQ(target_.base[0], std::byte{0});
}

// After the completion nobody reads the source, though the bytes may still be on their way.
TEST_F(MemoryPair, SourceIsFreeOnceItsCompletionRan) {
  make();
  ASSERT_TRUE(put(0, 1, note("put")).ok());
  a_->close(to_b_);
  a_->progress();
  EXPECT_EQ(log_, "put(cancelled);");
  source_.base[0] = std::byte{99};  // reused
  network_->deliver_all();
  EXPECT_NE(target_.base[0], std::byte{99});
}

TEST_F(MemoryPair, StoppedProcessKeepsWhatItPostedInFlight) {
  make();
  ASSERT_TRUE(put(0, 1, note("put")).ok());
  network_->stop(instance(*a_));
  EXPECT_FALSE(network_->deliver());
  EXPECT_EQ(network_->in_flight(), 1u);
  network_->resume(instance(*a_));
  network_->deliver_all();
  EXPECT_EQ(target_.base[0], std::byte{1});
}

TEST_F(MemoryPair, KilledProcessPostsNothingAnyMore) {
  make();
  network_->kill(instance(*a_));
  static_cast<void>(put(0, 1));  // its owner is still driven
  network_->deliver_all();
  EXPECT_EQ(target_.base[0], std::byte{0});
}

TEST_F(MemoryPair, PutsIntoADeadPeerSucceedUntilItsFailureIsFound) {
  make({.network_lanes = true});
  ASSERT_TRUE(put(0, 1, note("put")).ok());
  ASSERT_TRUE(a_->flush(to_b_, note("flush")).ok());
  while (network_->deliver()) {
  }
  network_->kill(instance(*b_));
  run();
  EXPECT_EQ(log_, "put;flush;failed;");
}

TEST_F(MemoryPair, FailedPutFailsEveryLaterFlush) {
  make({.fail_put = 1});
  ASSERT_TRUE(put(0, 1, note("put")).ok());
  ASSERT_TRUE(a_->flush(to_b_, note("flush")).ok());
  run();
  ASSERT_TRUE(a_->flush(to_b_, note("later")).ok());
  run();
  EXPECT_EQ(log_, "put(unavailable);flush(unavailable);later(unavailable);");
  EXPECT_EQ(target_.base[0], std::byte{0});
}

TEST_F(MemoryPair, FlippedByteArrivesChanged) {
  make({.flip_byte = 1});
  std::fill(source_.base, source_.base + 64, std::byte{7});
  ASSERT_TRUE(a_->put(to_b_, source_.base, remote_, 0, 64, {}).ok());
  run();
  EXPECT_EQ(std::count(target_.base, target_.base + 64, std::byte{7}), 63);
}

TEST_F(MemoryPair, HandlersMayCallVerbs) {
  make();
  a_->set_message_handler(MessageType::kToSender, [this](PeerId from, std::span<const std::byte>) {
    log_ += "answer;";
    a_->close(from);
  });
  b_->set_message_handler(MessageType::kToReceiver, [this](PeerId from, std::span<const std::byte> body) {
    EXPECT_TRUE(b_->send_message(from, MessageType::kToSender, body).ok());
  });
  ASSERT_TRUE(send("x").ok());
  run();
  EXPECT_EQ(log_, "answer;");
  EXPECT_EQ(a_->connection_to(instance(*b_)), PeerId());
}

}  // namespace
}  // namespace penstock
