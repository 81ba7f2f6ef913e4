// The peer half of ControlLoop: hellos between nodes, and what the router hears of pairs.
#include <zmq.h>

#include "tests/node/control_fixture.h"

namespace penstock {
namespace {

using wire::Role;

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

TEST(ControlLoopPeers, MalformedHellosAreDroppedAndSaidAndTheNextOneCounts) {
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
TEST(ControlLoopPeers, MalformedAnswersAreDroppedAndTheHelloGoesOn) {
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
