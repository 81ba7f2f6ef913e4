// Transport's contract over real UCX between two processes, over shared memory and over tcp. The parent
// starts, stops and kills its own children and never touches UCX itself.
#include "fabric/transport_ucx.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/rng.h"
#include "tests/fabric/ucx_side.h"

namespace penstock {
namespace {

std::byte pattern(size_t at) { return static_cast<std::byte>(mix64(at / 8) >> (at % 8 * 8)); }

std::string code_of(const Status& status) {
  return status.ok() ? "ok" : std::string(error_name(status.code()));
}
template <typename T>
std::string code_of(const Result<T>& result) {
  return result.ok() ? "ok" : std::string(error_name(result.code()));
}

// The side that is written to and killed: connects, says so, and lives until it is told otherwise.
void passive(Channel& channel, const std::string& transports) {
  UcxSide side(channel, transports);
  side.connect();
  channel.send("ready");
  side.run_until([&] { return channel.ready(); });
}

class UcxPair : public testing::TestWithParam<const char*> {
 protected:
  void start(const std::function<void(UcxSide&)>& active) {
    const std::string transports = GetParam();
    b_.emplace([transports](Channel& channel) { passive(channel, transports); });
    a_.emplace([transports, active](Channel& channel) {
      UcxSide side(channel, transports);
      side.connect();
      side.run_until([&] { return channel.ready(); });
      static_cast<void>(channel.receive());
      active(side);
    });
    introduce(*a_, *b_);
    ASSERT_EQ(from_b(), "ready");
    a_->channel().send("go");
  }
  std::string from_a() { return a_->channel().receive(40000).value_or("(gone)"); }
  std::string from_b() { return b_->channel().receive(40000).value_or("(gone)"); }
  static bool shared_memory() { return std::string(GetParam()).find("posix") != std::string::npos; }

  std::optional<ChildProcess> a_, b_;
};

INSTANTIATE_TEST_SUITE_P(Lanes, UcxPair, testing::Values("posix,tcp,self", "tcp,self"),
                         [](const auto& lanes) { return std::string(lanes.param).substr(0, 3); });

TEST_P(UcxPair, FlushedPutsAreThereWhenTheMessageBehindThemArrives) {
  const std::string transports = GetParam();
  ChildProcess target([transports](Channel& channel) {
    UcxSide side(channel, transports);
    side.connect();
    side.wait_for_word("look");
    for (size_t i = 0; i < UcxSide::kBytes; ++i) CHECK_EQ(i, side.memory.base[i] == pattern(i) ? i : ~i);
    side.say("seen");
    side.run_until([&] { return channel.ready(); });
  });
  ChildProcess writer([transports](Channel& channel) {
    UcxSide side(channel, transports);
    side.connect();
    for (size_t i = 0; i < UcxSide::kBytes; ++i) side.memory.base[i] = pattern(i);
    constexpr size_t kPiece = UcxSide::kBytes / 8;
    int puts = 0, flushes = 0;
    for (size_t at = 0; at < UcxSide::kBytes; at += kPiece) {
      const auto done = [&](const Status& status) { puts += status.ok() ? 1 : 100; };
      CHECK(side.transport->put(side.peer, side.memory.base + at, side.remote, at, kPiece, done).ok());
    }
    CHECK(side.transport->flush(side.peer, [&](const Status& s) { flushes += s.ok() ? 1 : 100; }).ok());
    CHECK_EQ(puts + flushes, 0);  // from progress(), never from inside the verb
    side.run_until([&] { return puts == 8 && flushes == 1; });
    side.say("look");
    side.wait_for_word("seen");
    const LaneReport lanes = side.transport->lanes(side.peer);
    channel.send(lanes.put + (lanes.shared_memory ? " maps" : " sends"));
  });
  introduce(writer, target);
  EXPECT_EQ(writer.channel().receive(40000).value_or("(gone)"), shared_memory() ? "posix maps" : "tcp sends");
  target.channel().send("end");
  EXPECT_EQ(writer.reap(), 0);
  EXPECT_EQ(target.reap(), 0);
}

TEST_P(UcxPair, MessagesOfAllSizesKeepTheirOrderAndWakeASleeper) {
  constexpr size_t kSizes[] = {0, 1, 63, 500, 9000, 70000, 300000};
  constexpr size_t kMessages = 280;
  const std::string transports = GetParam();
  ChildProcess listener([=](Channel& channel) {
    UcxSide side(channel, transports);
    side.connect();
    channel.send("ready");
    while (side.words.size() < kMessages) side.sleep_once();
    for (size_t i = 0; i < kMessages; ++i)
      CHECK_EQ(side.words[i] == std::string(kSizes[i % 7], static_cast<char>('a' + i % 26)) ? i : ~i, i);
    channel.send("all there");
  });
  ChildProcess talker([=](Channel& channel) {
    UcxSide side(channel, transports);
    side.connect();
    side.run_until([&] { return channel.ready(); });
    for (size_t i = 0; i < kMessages; ++i)
      side.say(std::string(kSizes[i % 7], static_cast<char>('a' + i % 26)));
    static_cast<void>(channel.receive());
    side.run_until([&] { return channel.ready(); });
  });
  introduce(talker, listener);
  ASSERT_EQ(listener.channel().receive(40000).value_or("(gone)"), "ready");
  talker.channel().send("go");
  EXPECT_EQ(listener.channel().receive(40000).value_or("(gone)"), "all there");
}

TEST_P(UcxPair, WhatCanNeverWorkIsInvalid) {
  start([](UcxSide& side) {
    const auto never = [](const Status&) {
      check_failed(__FILE__, __LINE__, "completion of no operation", "");
    };
    const auto put = [&](uint64_t offset, size_t bytes, RemoteMemoryId where) {
      return code_of(side.transport->put(side.peer, side.memory.base, where, offset, bytes, never)) + " ";
    };
    MemoryDescriptor wraps = side.theirs.probe;
    wraps.base = ~uint64_t{0} - 100;
    MemoryDescriptor keyless = side.theirs.probe;
    keyless.key.clear();
    std::string codes = put(UcxSide::kBytes, 1, side.remote) + put(1, UcxSide::kBytes, side.remote) +
                        put(~uint64_t{0}, 2, side.remote) + put(0, 1, RemoteMemoryId()) +
                        put(0, 1, RemoteMemoryId(9)) + code_of(side.transport->connect(side.theirs.address)) +
                        " " + code_of(side.transport->import_memory(side.peer, wraps)) + " " +
                        code_of(side.transport->import_memory(side.peer, keyless));
    CHECK(*side.transport->import_memory(side.peer, side.theirs.probe) == side.remote);  // idempotent
    CHECK_EQ(code_of(side.transport->flush(PeerId(), never)), "unavailable");
    CHECK_EQ(code_of(side.transport->flush(PeerId(99), never)), "unavailable");
    side.channel.send(codes);
  });
  std::string expected;
  for (int i = 0; i < 8; ++i)
    expected += std::string(i == 0 ? "" : " ") + std::string(error_name(Error::kInvalidArgument));
  EXPECT_EQ(from_a(), expected);
}

// Nobody reaps it, so UCX itself takes it for alive: the pidfd tells, and wakes a loop that sleeps.
TEST_P(UcxPair, KilledPeerWakesASleeperAndFailsOnce) {
  start([](UcxSide& side) {
    side.channel.send("asleep");
    while (side.failures == 0) side.sleep_once();
    CHECK(!side.transport->may_write(side.peer));
    CHECK(side.transport->connection_to(side.theirs.address.identity.instance) == PeerId());
    const auto never = [](const Status&) {
      check_failed(__FILE__, __LINE__, "completion of no operation", "");
    };
    const std::string word = "x";
    const std::string codes =
        code_of(side.transport->put(side.peer, side.memory.base, side.remote, 0, 1, never)) + " " +
        code_of(side.transport->flush(side.peer, never)) + " " +
        code_of(side.transport->send_message(side.peer, MessageType::kToReceiver,
                                             std::as_bytes(std::span(word)))) +
        " " + code_of(side.transport->import_memory(side.peer, side.theirs.probe));
    for (int i = 0; i < 1000; ++i) side.transport->progress();
    side.channel.send(codes + " failures " + std::to_string(side.failures));
  });
  ASSERT_EQ(from_a(), "asleep");
  b_->signal(SIGKILL);
  EXPECT_EQ(from_a(), "unavailable unavailable unavailable unavailable failures 1");
}

TEST_P(UcxPair, EveryPutIntoAPeerThatIsKilledMeanwhileIsAccountedFor) {
  start([](UcxSide& side) {
    size_t puts = 0, accepted = 0, ended = 0, at_failure = 0;
    side.transport->add_peer_failed_listener([&](PeerId, const Failure&) { at_failure = accepted - ended; });
    side.run_until([&] {
      while (side.failures == 0 && accepted - ended < 32) {
        const Status posted = side.transport->put(side.peer, side.memory.base, side.remote, 0, 1u << 16,
                                                  [&](const Status&) { ended += 1; });
        if (!posted.ok()) {
          CHECK_EQ(code_of(posted), "unavailable");
          break;
        }
        accepted += 1;
        if (++puts == 200) side.channel.send("putting");
        if (side.transport->flush(side.peer, [&](const Status&) { ended += 1; }).ok()) accepted += 1;
      }
      return side.failures > 0;
    });
    CHECK_EQ(at_failure, 0u);  // the listener runs behind all completions
    CHECK_EQ(accepted, ended);
    CHECK(!side.transport->may_write(side.peer));
    side.channel.send("accounted for");
  });
  ASSERT_EQ(from_a(), "putting");
  b_->signal(SIGKILL);
  EXPECT_EQ(from_a(), "accounted for");
  EXPECT_EQ(a_->reap(), 0);
}

// Completions keep this loop from ever coming to arm(); the exit must be found all the same.
TEST_P(UcxPair, ExitIsFoundByALoopThatNeverSleeps) {
  start([](UcxSide& side) {
    side.channel.send("busy");
    static_cast<void>(side.channel.receive());  // the peer is dead now
    for (int i = 0; i < 100000 && side.failures == 0; ++i) side.transport->progress();
    side.channel.send(side.transport->may_write(side.peer) ? "not found" : "found");
  });
  ASSERT_EQ(from_a(), "busy");
  b_->signal(SIGKILL);
  b_->wait_dead();
  a_->channel().send("dead");
  EXPECT_EQ(from_a(), "found");
}

// Over shared memory a put needs nothing of the target, and our close() proves nothing about what the target,
// once it wakes, may write here. Over tcp the end of our endpoint is the end of its writes.
TEST_P(UcxPair, StoppedPeerMayWriteAsLongAsItsLanesLetIt) {
  start([](UcxSide& side) {
    side.channel.send("ready");
    static_cast<void>(side.channel.receive());  // the peer is stopped now
    size_t accepted = 0, done = 0, cancelled = 0;
    for (int i = 0; i < 64; ++i) {
      const Status posted = side.transport->put(side.peer, side.memory.base, side.remote, 0, UcxSide::kBytes,
                                                [&](const Status& status) {
                                                  done += status.ok() ? 1 : 0;
                                                  cancelled += code_of(status) == "cancelled" ? 1 : 0;
                                                });
      accepted += posted.ok() ? 1 : 0;
    }
    for (int i = 0; i < 1000; ++i) side.transport->progress();
    CHECK_EQ(accepted, 64u);
    CHECK(side.transport->may_write(side.peer));
    const bool all_done = done == accepted;
    side.transport->close(side.peer);
    side.run_until([&] { return done + cancelled == accepted; });
    CHECK_EQ(side.failures, 0);  // asked for, no failure
    if (!all_done) side.run_until([&] { return !side.transport->may_write(side.peer); });
    side.channel.send(std::string(all_done ? "all put" : "some cancelled") +
                      (side.transport->may_write(side.peer) ? ", may write" : ", may not"));
    side.run_until([&] { return !side.transport->may_write(side.peer); });
    side.channel.send("may not");
  });
  ASSERT_EQ(from_a(), "ready");
  b_->signal(SIGSTOP);
  b_->wait_stopped();
  a_->channel().send("stopped");
  EXPECT_EQ(from_a(), shared_memory() ? "all put, may write" : "some cancelled, may not");
  b_->signal(SIGKILL);
  EXPECT_EQ(from_a(), "may not");
}

// A node may be told to stop at any moment. Over tcp only once connected: transport_ucx.h says why.
TEST_P(UcxPair, TransportEndsCleanlyWhileItsPeerLives) {
  const std::string transports = GetParam();
  const bool maps = shared_memory();
  for (int rounds = 0; rounds < 12; ++rounds) {
    ChildProcess stays([=](Channel& channel) {
      UcxSide side(channel, transports);
      if (maps) {
        const Result<PeerId> peer = side.try_connect();
        CHECK_EQ(peer.ok() ? "unavailable" : code_of(peer), "unavailable");  // it may be gone already
        if (!peer.ok()) return;
      } else {
        side.connect();
        side.say("connected");
      }
      side.run_until([&] { return side.failures > 0; });
    });
    ChildProcess leaves([=](Channel& channel) {
      UcxSide side(channel, transports);
      if (maps) {
        side.peer = *side.try_connect();
        side.say("connected");
      } else {
        side.connect();
        side.wait_for_word("connected");
      }
      for (int i = 0; i < rounds * rounds; ++i) side.transport->progress();
    });
    introduce(stays, leaves);
    EXPECT_EQ(leaves.reap(), 0) << "after " << rounds * rounds << " rounds";
    EXPECT_EQ(stays.reap(), 0) << "after " << rounds * rounds << " rounds";
  }
}

TEST_P(UcxPair, NextLifeOfAPeerConnectsToTheSameWorker) {
  const std::string transports = GetParam();
  ChildProcess writer([transports](Channel& channel) {
    UcxSide side(channel, transports);
    PeerId before;
    for (int life = 1; life <= 3; ++life) {
      side.connect();
      CHECK(side.peer != before);
      before = side.peer;
      side.memory.base[5] = static_cast<std::byte>(life);
      int ended = 0;
      CHECK(side.transport->put(side.peer, side.memory.base + 5, side.remote, 5, 1, {}).ok());
      CHECK(side.transport->flush(side.peer, [&](const Status& s) { ended = s.ok() ? 1 : -1; }).ok());
      side.run_until([&] { return ended != 0; });
      CHECK_EQ(ended, 1);
      side.say("look");
      side.run_until([&] { return side.failures == life; });
      PeerHello again;  // what a node would say to the next life
      again.address = side.transport->address();
      again.probe = side.memory.descriptor();
      channel.send(encode_hello(again));
    }
  });
  for (int life = 1; life <= 3; ++life) {
    ChildProcess target([transports, life](Channel& channel) {
      UcxSide side(channel, transports);
      side.connect();
      side.wait_for_word("look");
      channel.send(std::to_string(static_cast<int>(side.memory.base[5])));
      static_cast<void>(channel.receive());
    });
    introduce(writer, target);
    EXPECT_EQ(target.channel().receive(40000).value_or("(gone)"), std::to_string(life));
    target.signal(SIGKILL);
  }
  EXPECT_TRUE(writer.channel().receive(40000).has_value());
  EXPECT_EQ(writer.reap(), 0);
}

// Its process lives on, as one does that is ending: there is nothing left to map all the same.
TEST_P(UcxPair, MemoryThatItsOwnerHasGivenBackIsNotImported) {
  const std::string transports = GetParam();
  ChildProcess owner([transports](Channel& channel) {
    auto side = std::make_unique<UcxSide>(channel, transports);
    side->connect();
    side->run_until([&] { return channel.ready(); });
    static_cast<void>(channel.receive());
    side.reset();
    channel.send("given back");
    static_cast<void>(channel.receive());
  });
  ChildProcess importer([transports](Channel& channel) {
    UcxSide side(channel, transports);
    side.connect();
    channel.send("connected");
    static_cast<void>(channel.receive());
    MemoryDescriptor fresh = side.theirs.probe;
    fresh.bytes -= 1;  // not the one that is imported already
    channel.send(code_of(side.transport->import_memory(side.peer, fresh)));
  });
  introduce(importer, owner);
  ASSERT_EQ(importer.channel().receive(40000).value_or("(gone)"), "connected");
  owner.channel().send("give back");
  ASSERT_EQ(owner.channel().receive(40000).value_or("(gone)"), "given back");
  importer.channel().send("go on");
  // Over tcp a key is only numbers: whatever is put there finds no endpoint.
  EXPECT_EQ(importer.channel().receive(40000).value_or("(gone)"), shared_memory() ? "unavailable" : "ok");
}

// Mapping a dead process's memory is what UCX 1.13 does worst: it crashes.
TEST_P(UcxPair, MemoryOfADeadPeerIsNotImported) {
  const std::string transports = GetParam();
  ChildProcess target([transports](Channel& channel) { passive(channel, transports); });
  ChildProcess importer([transports](Channel& channel) {
    UcxSide side(channel, transports);
    side.connect();
    channel.send("connected");
    static_cast<void>(channel.receive());  // the peer is dead now; nothing here has noticed
    MemoryDescriptor fresh = side.theirs.probe;
    fresh.bytes -= 1;  // not the one that is imported already
    channel.send(code_of(side.transport->import_memory(side.peer, fresh)));
  });
  introduce(importer, target);
  ASSERT_EQ(importer.channel().receive(40000).value_or("(gone)"), "connected");
  target.signal(SIGKILL);
  target.wait_dead();
  importer.channel().send("dead");
  EXPECT_EQ(importer.channel().receive(40000).value_or("(gone)"), "unavailable");
  EXPECT_EQ(importer.reap(), 0);
}

TEST_P(UcxPair, ProcessThatHasExitedIsNotConnected) {
  const std::string transports = GetParam();
  ChildProcess gone([transports](Channel& channel) { UcxSide side(channel, transports); });
  const auto hello = gone.channel().receive(40000);
  gone.wait_dead();
  ChildProcess late([transports](Channel& channel) {
    UcxSide side(channel, transports);
    channel.send(code_of(side.try_connect()));
  });
  static_cast<void>(late.channel().receive(40000));
  late.channel().send(hello.value_or(""));
  EXPECT_EQ(late.channel().receive(40000).value_or("(gone)"), "unavailable");
}

// Unlike peers crash or stall each other: refused before there is an endpoint.
TEST(UcxSettings, UnlikePeersAreRefusedByName) {
  const auto refusal = [](const std::string& setting) {
    const auto body = [](Channel& channel) {
      UcxSide side(channel, "posix,tcp,self");
      const Result<PeerId> peer = side.try_connect();
      channel.send(peer.ok() ? "connected" : std::string(error_name(peer.code())) + ": " + peer.message());
      static_cast<void>(channel.receive());
    };
    ChildProcess plain(body);
    ChildProcess other(body, {setting});
    introduce(plain, other);
    return plain.channel().receive(40000).value_or("(gone)");
  };
  const std::string incompatible(error_name(Error::kIncompatible));
  const std::string tls = refusal("UCX_TLS=tcp,self");
  EXPECT_EQ(tls.rfind(incompatible + ": UCX_TLS differs: here \"posix,tcp,self\", there \"tcp,self\"", 0), 0u)
      << tls;
  const std::string mm = refusal("UCX_MM_ERROR_HANDLING=n");
  EXPECT_EQ(mm.rfind(incompatible + ": UCX_MM_ERROR_HANDLING differs", 0), 0u) << mm;
  EXPECT_EQ(refusal("UCX_MM_ERROR_HANDLING=YES"), "connected") << "as UCX itself reads it";
}

TEST(UcxMemory, IsZeroedAndAnAbsurdSizeIsRefusedWithTheRemedy) {
  ChildProcess child([](Channel& channel) {
    UcxSide side(channel, "posix,tcp,self");
    CHECK(std::all_of(side.memory.base, side.memory.base + side.memory.bytes,
                      [](std::byte b) { return b == std::byte{0}; }));
    const Result<LocalMemory> absurd = side.transport->allocate(size_t{1} << 50);
    channel.send(absurd.ok() ? "allocated" : code_of(absurd) + ": " + absurd.message());
  });
  ASSERT_TRUE(child.channel().receive(40000).has_value());
  const std::string text = child.channel().receive(40000).value_or("(gone)");
  EXPECT_EQ(text.rfind(std::string(error_name(Error::kResourceExhausted)) + ": /dev/shm has", 0), 0u) << text;
}

}  // namespace
}  // namespace penstock
