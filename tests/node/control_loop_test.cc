#include "node/control_loop.h"

#include "tests/node/control_fixture.h"
#include "tests/node/tcp_proxy.h"

namespace penstock {
namespace {

using wire::Role;

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

// Bytes go nowhere and no connection breaks, as after a firewall's restart: only a new one helps.
TEST(ControlLoop, AConnectionThatDiedWithoutSayingSoIsReplaced) {
  TestRouter router;
  TcpProxy proxy(router.endpoint());
  RunningLoop node(control_options("decode-0", Role::Decode, proxy.endpoint()));
  ASSERT_TRUE(router.wait_register());
  router.accept(node.identity, 1);
  ASSERT_TRUE(router.fence(node));
  proxy.cut();
  node.pass(Duration::from_ms(2100));
  EXPECT_TRUE(node.next_engine<AbortAll>().has_value());
  ASSERT_TRUE(router.wait_register());
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

// ---- What is malformed ------------------------------------------------------------------------------------

TEST(ControlLoop, MalformedFramesFromTheRouterAreDroppedAndSaid) {
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

}  // namespace
}  // namespace penstock
