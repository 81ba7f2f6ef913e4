#include "node/control_loop.h"

#include <zmq.h>

#include "tests/node/control_fixture.h"

namespace penstock {
namespace {

using wire::Role;

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

int count_of(const std::string& text, const std::string& what) {
  int count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

Logger log_of(const std::string& name) { return Logger::to_stderr(name, LogLevel::kWarning); }

// A raw peer socket: it can say what PeerClient would not.
class RawDealer {
 public:
  RawDealer(wire::Context& context, const std::string& endpoint, const std::string& identity)
      : socket_(zmq_socket(context.handle(), ZMQ_DEALER)) {
    const int none = 0;
    zmq_setsockopt(socket_, ZMQ_LINGER, &none, sizeof(none));
    zmq_setsockopt(socket_, ZMQ_ROUTING_ID, identity.data(), identity.size());
    zmq_connect(socket_, endpoint.c_str());
  }
  ~RawDealer() { zmq_close(socket_); }
  void send(const std::string& part, bool more = false) {
    ASSERT_GE(zmq_send(socket_, part.data(), part.size(), more ? ZMQ_SNDMORE : 0), 0);
  }
  // Waits for the next answer, as the socket's own receive timeout allows.
  std::string receive() {
    const int patience_ms = 20'000;
    zmq_setsockopt(socket_, ZMQ_RCVTIMEO, &patience_ms, sizeof(patience_ms));
    std::string bytes(1 << 16, '\0');
    const int received = zmq_recv(socket_, bytes.data(), bytes.size(), 0);
    EXPECT_GT(received, 0);
    bytes.resize(static_cast<size_t>(std::max(received, 0)));
    return bytes;
  }

 private:
  void* socket_;
};

// ---- Registration -----------------------------------------------------------------------------------------

TEST(ControlLoop, RegistersAndThenSendsNumberedFrames) {
  TestRouter router;
  RunningLoop node(control_options("decode-0", Role::Decode, router.endpoint()));
  ASSERT_TRUE(router.wait_register());
  EXPECT_EQ(router.registered.name, "decode-0");
  EXPECT_EQ(router.registered.incarnation, 22u);
  EXPECT_EQ(router.registered.peer_address.rfind("tcp://127.0.0.1:", 0), 0u);
  EXPECT_EQ(router.frames, 0u) << "nothing is told before the router knows the node";
  router.accept(node.identity, 5);
  ASSERT_TRUE(router.wait([&] { return router.frames >= 5; })) << "heartbeats";
  EXPECT_FALSE(router.gap);
  EXPECT_TRUE(node.stop().ok());
}

TEST(ControlLoop, AskedAgainUntilTheRouterAnswers) {
  TestRouter router;
  RunningLoop node(control_options("decode-0", Role::Decode, router.endpoint()));
  for (int tries = 0; tries < 3; ++tries) {
    ASSERT_TRUE(router.wait_register());
    node.pass(Duration::from_ms(1000));
  }
  router.accept(node.identity, 5);
  ASSERT_TRUE(router.fence(node));
}

// One life of the node, two of the router: what the first asked for is aborted, numbers begin anew.
TEST(ControlLoop, RegistersAgainWhenTheRouterRestarts) {
  TestRouter router;
  RunningLoop node(control_options("decode-0", Role::Decode, router.endpoint()));
  for (uint32_t life = 1; life <= 3; ++life) {
    ASSERT_TRUE(router.wait_register()) << "life " << life;
    EXPECT_EQ(router.registered.incarnation, 22u);
    if (life > 1) {
      EXPECT_TRUE(node.next_engine<AbortAll>().has_value());
    }
    router.accept(node.identity, life);
    ASSERT_TRUE(router.fence(node));
    router.restart();
  }
  EXPECT_FALSE(router.gap);
}

// The connection stands, but nothing comes: dead, or the way back is cut.
TEST(ControlLoop, ASilentRouterIsLostAndDialledAnew) {
  CapturedLog log;
  TestRouter router;
  RunningLoop node(control_options("decode-0", Role::Decode, router.endpoint()), log_of("decode-0"));
  ASSERT_TRUE(router.wait_register());
  router.accept(node.identity, 1);
  ASSERT_TRUE(router.fence(node));
  node.pass(Duration::from_ms(2100));
  EXPECT_TRUE(node.next_engine<AbortAll>().has_value());
  ASSERT_TRUE(router.wait_register());
  router.accept(node.identity, 2);
  ASSERT_TRUE(router.fence(node));
  EXPECT_TRUE(node.stop().ok());
  EXPECT_EQ(count_of(log.take(), "router lost, its requests are aborted reason=no heartbeat"), 1);
}

TEST(ControlLoop, ARouterThatDoesNotKnowTheNodeIsToldAnew) {
  TestRouter router;
  RunningLoop node(control_options("decode-0", Role::Decode, router.endpoint()));
  ASSERT_TRUE(router.wait_register());
  router.accept(node.identity, 1);
  ASSERT_TRUE(router.fence(node));
  wire::RegisteredT unknown;
  unknown.reason = "not registered here; register again";
  router.send(node.identity, std::move(unknown));
  ASSERT_TRUE(router.wait_register());
  EXPECT_TRUE(node.next_engine<AbortAll>().has_value());
  router.accept(node.identity, 2);
  ASSERT_TRUE(router.fence(node));
  EXPECT_EQ(router.registers, 2) << "one answer, one new try";
}

TEST(ControlLoop, AFinalRefusalEndsTheNodeWithTheReason) {
  TestRouter router;
  RunningLoop node(control_options("decode-0", Role::Decode, router.endpoint()));
  ASSERT_TRUE(router.wait_register());
  wire::RegisteredT refused;
  refused.reason = "model: the node has tiny, this router huge";
  refused.final = true;
  router.send(node.identity, std::move(refused));
  const Status status = node.join();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Error::kIncompatible);
  EXPECT_NE(status.message().find("the node has tiny"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find(router.endpoint()), std::string::npos) << status.message();
}

// Every look at this clock takes 50 ms, and the loop is kept from sleeping: a minute passes in no time. The
// test's own thread runs the loop; `at` is called at each look.
class FlyingClock final : public Clock {
 public:
  TimePoint now() const override {
    now_ = now_ + Duration::from_ms(50);
    if (at) at(now_);
    return now_;
  }
  std::function<void(TimePoint)> at;

 private:
  mutable TimePoint now_{1'000'000};
};

TEST(ControlLoop, ARouterThatCannotBeReachedIsSaidSoEveryTenSecondsAndDialledOn) {
  CapturedLog log;
  TestRouter router;
  const std::string endpoint = router.endpoint();
  router.stop();
  FlyingClock clock;
  NodePorts ports;
  FakeSignals signals;
  int looks_after = 0;
  bool heard = false;
  TimePoint end;
  clock.at = [&](TimePoint now) {
    ports.control.nudge();
    end = now;
    if (now < TimePoint{60'000'000}) return;
    if (looks_after++ == 0) router.bind(endpoint);
    if (heard || looks_after % 100 != 0) return;
    router.receive();
    heard = router.registers > 0;
    if (!heard) return;
    signals.raise();
    signals.raise();
  };
  ControlLoop loop(control_options("decode-0", Role::Decode, endpoint), ports, clock, log_of("decode-0"));
  EXPECT_TRUE(loop.run(signals.fd()).ok());
  EXPECT_TRUE(heard);
  const std::string text = log.take();
  const int told = count_of(text, "router not reachable, trying on");
  EXPECT_GE(told, 5) << text;
  EXPECT_LE(told, end.us / 10'000'000 + 1);
  EXPECT_NE(text.find(endpoint), std::string::npos);
}

// ---- Requests ---------------------------------------------------------------------------------------------

TEST(ControlLoop, StartsAreCheckedAndNameThePeerByItsLife) {
  TestRouter router;
  RunningLoop node(control_options("prefill-0", Role::Prefill, router.endpoint()));
  ASSERT_TRUE(router.wait_register());
  router.accept(node.identity, 1);
  router.list(node.identity, {{7, "decode-0", 22, "tcp://127.0.0.1:9"}});
  wire::StartT start;
  start.sequence = 4;
  start.epoch = 2;
  start.decode_node = 7;
  start.ids = {1, 2, 3};
  start.prompt_tokens = 3;
  start.tokens_max = 5;
  start.sampling = std::make_unique<wire::SamplingT>();
  router.send(node.identity, wire::StartT(start));
  const auto request = node.next_engine<StartRequest>();
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->submit.spec.key, (SequenceKey{SequenceId(4), Epoch(2)}));
  EXPECT_EQ(request->decode_peer, "decode-0/22");

  start.sequence = 5;
  start.ids = {1, 2, 100};
  router.send(node.identity, std::move(start));
  ASSERT_TRUE(router.wait([&] { return !router.failures.empty(); }));
  EXPECT_EQ(router.failures[0].sequence, 5u);
  EXPECT_EQ(router.failures[0].code, wire::ErrorCode::InvalidArgument);
  EXPECT_NE(router.failures[0].message.find("token id 100"), std::string::npos);
}

TEST(ControlLoop, ASignalDrainsAndASecondOneEndsAtOnce) {
  for (const bool in_time : {true, false}) {
    TestRouter router;
    RunningLoop node(control_options("decode-0", Role::Decode, router.endpoint()));
    ASSERT_TRUE(router.wait_register());
    router.accept(node.identity, 1);
    StepReport busy;
    busy.load.running = 1;
    node.ports.control.post(std::move(busy));
    ASSERT_TRUE(router.fence(node));
    node.signal();
    ASSERT_TRUE(router.wait([&] { return router.drainings == 1; }));
    ASSERT_TRUE(router.fence(node)) << "what runs goes on";
    EXPECT_FALSE(node.ended());
    if (in_time) {
      node.ports.control.post(StepReport{});
    } else {
      node.signal();
    }
    EXPECT_TRUE(node.join().ok());
  }
}

// ---- Peers ------------------------------------------------------------------------------------------------

// A prefill and a decode node, registered and listed to each other.
struct TwoLoops {
  explicit TwoLoops(const std::function<void(ControlOptions&)>& change_decode = {}) {
    auto options = control_options("decode-0", Role::Decode, router.endpoint());
    if (change_decode) change_decode(options);
    decode = std::make_unique<RunningLoop>(std::move(options), log_of("decode-0"));
    EXPECT_TRUE(router.wait_register());
    decode_address = router.registered.peer_address;
    router.accept(decode->identity, 2);
    prefill = std::make_unique<RunningLoop>(control_options("prefill-0", Role::Prefill, router.endpoint()),
                                            log_of("prefill-0"));
    EXPECT_TRUE(router.wait_register());
    router.accept(prefill->identity, 1);
    list(2);
  }
  void list(uint32_t decode_id) {
    if (decode_id == 0) return router.list(prefill->identity, {});
    router.list(prefill->identity, {{decode_id, "decode-0", 22, decode_address}});
  }
  std::string stop() {
    EXPECT_TRUE(prefill->stop().ok());
    EXPECT_TRUE(decode->stop().ok());
    return log.take();
  }
  CapturedLog log;
  TestRouter router;
  std::unique_ptr<RunningLoop> prefill, decode;
  std::string decode_address;
};

TEST(ControlLoopPeers, AfterTheHelloBothSidesConnectAndThePairIsToldOnce) {
  TwoLoops two;
  const auto at_prefill = two.prefill->next_transfer<ConnectPeer>();
  const auto at_decode = two.decode->next_transfer<ConnectPeer>();
  ASSERT_TRUE(at_prefill && at_decode);
  EXPECT_EQ(at_prefill->identity, two.decode->identity);
  EXPECT_EQ(at_prefill->hello.node, "decode-0");
  EXPECT_TRUE(at_prefill->probe) << "who dialled measures";
  EXPECT_EQ(at_decode->identity, two.prefill->identity);
  EXPECT_FALSE(at_decode->probe);

  const PairReady ready{two.decode->identity, "posix", 6.5, 7.5, ""};
  for (int times = 0; times < 2; ++times) two.prefill->ports.control.post(PairReady(ready));
  ASSERT_TRUE(two.router.wait([&] { return !two.router.ups.empty(); }));
  EXPECT_EQ(two.router.ups[0].peer, 2u);
  EXPECT_EQ(two.router.ups[0].lanes, "posix");
  EXPECT_FLOAT_EQ(two.router.ups[0].put_gbps, 6.5F);

  // The router lists again, loses the decode node, finds it again: the connection has never minded.
  for (const uint32_t id : {2u, 0u, 2u}) {
    two.list(id);
    ASSERT_TRUE(two.router.fence(*two.prefill));
  }
  EXPECT_EQ(two.router.ups.size(), 1u);
  two.list(3);  // the decode node has registered again
  ASSERT_TRUE(two.router.fence(*two.prefill));
  ASSERT_EQ(two.router.ups.size(), 2u);
  EXPECT_EQ(two.router.ups[1].peer, 3u);

  two.router.restart();
  for (int nodes = 0; nodes < 2; ++nodes) {
    ASSERT_TRUE(two.router.wait_register());
    const bool is_prefill = two.router.registered.role == Role::Prefill;
    two.router.accept(is_prefill ? two.prefill->identity : two.decode->identity, is_prefill ? 1 : 3);
  }
  two.list(3);  // the new router counts as the old one did
  two.list(3);
  ASSERT_TRUE(two.router.fence(*two.prefill));
  ASSERT_EQ(two.router.ups.size(), 3u);
  EXPECT_EQ(two.router.ups[2].peer, 3u);
  EXPECT_TRUE(two.router.downs.empty());
  EXPECT_EQ(two.prefill->pending_transfer() + two.decode->pending_transfer(), 0u) << "connected once";
}

TEST(ControlLoopPeers, ABrokenPairIsToldAndMadeAgain) {
  TwoLoops two;
  for (int round = 0; round < 3; ++round) {
    const auto at_prefill = two.prefill->next_transfer<ConnectPeer>();
    const auto at_decode = two.decode->next_transfer<ConnectPeer>();
    ASSERT_TRUE(at_prefill && at_decode) << "round " << round;
    two.prefill->ports.control.post(PairReady{two.decode->identity, "posix", 1, 1, ""});
    ASSERT_TRUE(two.router.fence(*two.prefill));
    EXPECT_EQ(two.router.ups.size(), static_cast<size_t>(round + 1));
    two.prefill->ports.control.post(PairBroken{two.decode->identity, "no heartbeat"});
    ASSERT_TRUE(two.router.fence(*two.prefill));
    ASSERT_EQ(two.router.downs.size(), static_cast<size_t>(round + 1));
    EXPECT_EQ(two.router.downs.back().peer, 2u);
    EXPECT_EQ(two.router.downs.back().reason, "no heartbeat");
  }
}

struct Unlike {
  const char* what;
  const char* named;
  void (*change)(ControlOptions&);
};

class ControlLoopRefuses : public testing::TestWithParam<Unlike> {};

TEST_P(ControlLoopRefuses, APairThatCannotWorkWithTheReasonOnBothSidesAndOnce) {
  TwoLoops two(GetParam().change);
  ASSERT_TRUE(two.router.wait([&] { return !two.router.downs.empty(); }));
  EXPECT_EQ(two.router.downs[0].peer, 2u);
  for (const char* part : {"prefill-0", "decode-0", GetParam().named})
    EXPECT_NE(two.router.downs[0].reason.find(part), std::string::npos) << two.router.downs[0].reason;
  two.prefill->pass(Duration::from_ms(60'000));  // time enough for many hellos
  ASSERT_TRUE(two.router.wait_register()) << "the router was silent so long";
  two.router.accept(two.prefill->identity, 4);
  two.list(5);
  ASSERT_TRUE(two.router.fence(*two.prefill));
  ASSERT_EQ(two.router.downs.size(), 2u) << "a router that has just come hears it too";
  EXPECT_EQ(two.router.downs[1].peer, 5u);
  EXPECT_EQ(two.prefill->pending_transfer() + two.decode->pending_transfer(), 0u) << "nobody connects";
  const std::string log = two.stop();
  EXPECT_EQ(count_of(log, " decode-0 pair refused peer=prefill-0/11"), 1) << log;
  EXPECT_EQ(count_of(log, " prefill-0 pair refused peer=decode-0/22"), 1) << log;
}

INSTANTIATE_TEST_SUITE_P(
    Unlike, ControlLoopRefuses,
    testing::Values(
        Unlike{"Layout", "64 tokens", [](ControlOptions& o) { o.hello.capability.layout.block_tokens = 64; }},
        Unlike{"Protocol", "protocol", [](ControlOptions& o) { o.hello.capability.protocol += 1; }},
        Unlike{"Model", "another", [](ControlOptions& o) { o.hello.capability.model = "another"; }},
        Unlike{"Transports", "UCX_TLS",
               [](ControlOptions& o) { o.hello.address.identity.transports = "tcp"; }}),
    [](const auto& test) { return std::string(test.param.what); });

// A decode node that is slow to answer hears the same hello again: one connection, not one for each copy.
TEST(ControlLoopPeers, ARepeatedHelloIsAnsweredAndConnectsOnce) {
  TestRouter router;
  RunningLoop node(control_options("decode-0", Role::Decode, router.endpoint()));
  ASSERT_TRUE(router.wait_register());
  wire::Context context;
  RawDealer prefill(context, router.registered.peer_address, "prefill-0/11");
  PeerHello hello = hello_of("prefill-0", 11);
  for (const uint64_t attempt : {1u, 1u, 1u, 2u, 2u}) {
    hello.attempt = attempt;
    prefill.send(encode_hello(hello));
    const auto answer = decode_hello(prefill.receive());
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(answer->node, "decode-0");
    EXPECT_TRUE(answer->refusal.empty());
  }
  EXPECT_EQ(node.pending_transfer(), 2u);
  // Its own connection has gone meanwhile: then the copy counts.
  node.ports.control.post(PairBroken{"prefill-0/11", "no heartbeat"});
  router.accept(node.identity, 1);
  ASSERT_TRUE(router.fence(node));
  prefill.send(encode_hello(hello));
  prefill.receive();
  EXPECT_EQ(node.pending_transfer(), 3u);
}

// A decode node played by the test: it hears `node`'s hellos and answers when it likes.
struct FakeDecode {
  explicit FakeDecode(RunningLoop& node) : node_(node) {
    auto bound = wire::PeerServer::bind(context, "127.0.0.1", "",
                                        [](std::string_view) -> const char* { return nullptr; });
    CHECK(bound.ok());
    server = std::move(*bound);
  }
  PeerHello hear() {
    std::vector<wire::FromPeer> got;
    // Time flies until the next one is due.
    EXPECT_TRUE(eventually(server->fd(), [&] {
      node_.pass(Duration::from_ms(50));
      server->receive(got);
      return !got.empty();
    }));
    const auto hello = got.empty() ? Result<PeerHello>(fail(Error::kDeadlineExceeded, "no hello"))
                                   : decode_hello(got.back().bytes);
    EXPECT_TRUE(hello.ok());
    return hello.ok() ? *hello : PeerHello{};
  }
  void answer(const std::string& bytes) { EXPECT_TRUE(server->send(node_.identity, bytes).ok()); }

  RunningLoop& node_;
  wire::Context context;
  std::unique_ptr<wire::PeerServer> server;
};

struct PrefillAlone {
  PrefillAlone() : node(options(), log_of("prefill-0")), decode(node) {
    EXPECT_TRUE(router.wait_register());
    router.accept(node.identity, 1);
    router.list(node.identity, {{2, "decode-0", 22, decode.server->endpoint()}});
  }
  ControlOptions options() {
    ControlOptions made = control_options("prefill-0", Role::Prefill, router.endpoint());
    made.dead_after = Duration::from_ms(1'000'000'000);  // the test lets time fly
    return made;
  }
  CapturedLog log;
  TestRouter router;
  RunningLoop node;
  FakeDecode decode;
};

TEST(ControlLoopPeers, AnUnansweredHelloIsRepeatedUnderTheSameNumber) {
  PrefillAlone alone;
  const uint64_t first = alone.decode.hear().attempt;
  EXPECT_GT(first, 0u);
  for (int times = 0; times < 5; ++times) EXPECT_EQ(alone.decode.hear().attempt, first);
  alone.decode.answer(encode_hello(hello_of("decode-0", 22)));
  alone.decode.answer(encode_hello(hello_of("decode-0", 22)));
  ASSERT_TRUE(alone.node.next_transfer<ConnectPeer>().has_value());
  ASSERT_TRUE(alone.router.fence(alone.node));
  EXPECT_EQ(alone.node.pending_transfer(), 0u);
  alone.node.ports.control.post(PairBroken{"decode-0/22", "no first heartbeat"});
  EXPECT_GT(alone.decode.hear().attempt, first) << "another connection is asked for";
}

// ---- What is malformed ------------------------------------------------------------------------------------

TEST(ControlLoopMalformed, FramesFromTheRouterAreDroppedAndSaid) {
  CapturedLog log;
  TestRouter router;
  RunningLoop node(control_options("decode-0", Role::Decode, router.endpoint()), log_of("decode-0"));
  ASSERT_TRUE(router.wait_register());
  router.send_malformed(node.identity);
  router.accept(node.identity, 1);
  router.send_malformed(node.identity);
  router.send(node.identity, wire::RegisterT(router.registered));  // well-formed, and no message for a node
  ASSERT_TRUE(router.fence(node));
  EXPECT_EQ(router.registers, 1);
  EXPECT_TRUE(node.stop().ok());
  const std::string text = log.take();
  EXPECT_EQ(count_of(text, "frame from the router dropped"), 2) << text;
  EXPECT_EQ(count_of(text, "unexpected message from the router"), 1) << text;
}

TEST(ControlLoopMalformed, HellosAreDroppedAndSaidAndTheNextOneCounts) {
  CapturedLog log;
  TestRouter router;
  RunningLoop node(control_options("decode-0", Role::Decode, router.endpoint()), log_of("decode-0"));
  ASSERT_TRUE(router.wait_register());
  wire::Context context;
  RawDealer prefill(context, router.registered.peer_address, "prefill-0/11");
  const std::string good = encode_hello(hello_of("prefill-0", 11));
  prefill.send("garbage");
  prefill.send("");
  prefill.send("two", true);
  prefill.send("parts");
  prefill.send(good.substr(0, good.size() / 2));
  prefill.send(encode_hello(hello_of("prefill-0", 12)));  // another life than the socket's
  PeerHello hello = hello_of("prefill-0", 11);
  hello.attempt = 1;
  prefill.send(encode_hello(hello));
  EXPECT_TRUE(decode_hello(prefill.receive())->refusal.empty());
  EXPECT_EQ(node.pending_transfer(), 1u);
  EXPECT_TRUE(node.stop().ok());
  const std::string text = log.take();
  EXPECT_EQ(count_of(text, "malformed hello dropped peer=prefill-0/11"), 4) << text;
  EXPECT_EQ(count_of(text, "frame from a peer dropped from=prefill-0/11"), 1) << text;
  EXPECT_EQ(count_of(text, "hello of prefill-0/12"), 1) << text;
}

// Another process may sit at the address by now: what it says is not the decode node's last word.
TEST(ControlLoopMalformed, AnswersAreDroppedAndTheHelloGoesOn) {
  PrefillAlone alone;
  alone.decode.hear();
  alone.decode.answer("garbage");
  alone.decode.answer(encode_hello(hello_of("decode-0", 23)));
  PeerHello stranger = hello_of("decode-9", 23);
  stranger.refusal = "no";
  alone.decode.answer(encode_hello(stranger));
  alone.decode.hear();
  alone.decode.answer(encode_hello(hello_of("decode-0", 22)));
  const auto connect = alone.node.next_transfer<ConnectPeer>();
  ASSERT_TRUE(connect.has_value());
  EXPECT_EQ(connect->hello.incarnation, 22u);
  ASSERT_TRUE(alone.router.fence(alone.node));
  EXPECT_TRUE(alone.router.downs.empty());
  EXPECT_TRUE(alone.node.stop().ok());
  const std::string text = alone.log.take();
  EXPECT_EQ(count_of(text, "malformed answer to a hello dropped peer=decode-0/22"), 3) << text;
}

}  // namespace
}  // namespace penstock
