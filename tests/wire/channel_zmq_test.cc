#include "wire/channel_zmq.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <zmq.h>

#include <chrono>
#include <thread>

namespace penstock::wire {
namespace {

constexpr int kPatienceMs = 10000;  // only a failing test waits so long

// Until `done`, sleeping on the channel's descriptor: what a driver does.
template <typename Done>
bool wait_for(Channel& channel, Done done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  while (std::chrono::steady_clock::now() < deadline) {
    if (done()) return true;
    pollfd descriptor{channel.fd(), POLLIN, 0};
    ::poll(&descriptor, 1, 20);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // a sender leaves the descriptor readable
  }
  return done();
}

RegisterT a_register(const std::string& name) {
  RegisterT message;
  message.name = name;
  message.capability = std::make_unique<CapabilityT>();
  message.capacity = std::make_unique<CapacityT>();
  return message;
}

bool send_until_taken(NodeChannel& node, const ControlT& message) {
  return wait_for(node, [&] { return node.send(message).ok(); });
}

TEST(ChannelTest, NodeAndRouterExchangeMessages) {
  Context context;
  auto router = RouterChannel::bind(context, "tcp://127.0.0.1:0");
  ASSERT_TRUE(router.ok()) << router.message();
  auto node = NodeChannel::dial(context, (*router)->endpoint(), node_identity("p0", 7));
  ASSERT_TRUE(node.ok()) << node.message();
  ASSERT_TRUE(send_until_taken(**node, control_of(a_register("p0"))));

  std::vector<FromNode> got;
  ASSERT_TRUE(wait_for(**router, [&] {
    (*router)->receive(got);
    return !got.empty();
  }));
  EXPECT_EQ(got[0].identity, "p0/7");
  EXPECT_EQ(got[0].message->body.AsRegister()->name, "p0");

  ASSERT_TRUE((*router)->send(got[0].identity, control_of(DrainT())).ok());
  std::vector<std::unique_ptr<ControlT>> answers;
  ASSERT_TRUE(wait_for(**node, [&] {
    (*node)->receive(answers);
    return !answers.empty();
  }));
  EXPECT_NE(answers[0]->body.AsDrain(), nullptr);
}

TEST(ChannelTest, SendingToAnUnknownPeerFails) {
  Context context;
  auto router = RouterChannel::bind(context, "tcp://127.0.0.1:0");
  ASSERT_TRUE(router.ok());
  const Status sent = (*router)->send("nobody/1", control_of(HeartbeatT()));
  ASSERT_FALSE(sent.ok());
  EXPECT_EQ(sent.code(), Error::kUnavailable);
  EXPECT_EQ((*router)->counts().send_failed, 1u);
}

TEST(ChannelTest, PortInUseNamesTheEndpoint) {
  Context context;
  auto first = RouterChannel::bind(context, "tcp://127.0.0.1:0");
  ASSERT_TRUE(first.ok());
  auto second = RouterChannel::bind(context, (*first)->endpoint());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.code(), Error::kIo);
  EXPECT_NE(second.message().find((*first)->endpoint()), std::string::npos) << second.message();
}

TEST(ChannelTest, NothingIsQueuedForARouterThatIsNotThere) {
  Context context;
  auto node = NodeChannel::dial(context, "tcp://127.0.0.1:9", "p0/1");
  ASSERT_TRUE(node.ok());
  const Status sent = (*node)->send(control_of(HeartbeatT()));
  ASSERT_FALSE(sent.ok());
  EXPECT_EQ(sent.code(), Error::kUnavailable);
}

TEST(ChannelTest, NodeFindsARouterThatComesBack) {
  Context context;
  auto router = RouterChannel::bind(context, "tcp://127.0.0.1:0");
  ASSERT_TRUE(router.ok());
  const std::string endpoint = (*router)->endpoint();
  auto node = NodeChannel::dial(context, endpoint, "p0/1");
  ASSERT_TRUE(send_until_taken(**node, control_of(a_register("p0"))));
  router->reset();
  ASSERT_TRUE(wait_for(**node, [&] { return !(*node)->send(control_of(HeartbeatT())).ok(); }));

  ASSERT_TRUE(wait_for(**node, [&] {
    router = RouterChannel::bind(context, endpoint);
    return router.ok();
  }));
  ASSERT_TRUE((*node)->redial().ok());
  ASSERT_TRUE(send_until_taken(**node, control_of(a_register("p0"))));
  std::vector<FromNode> got;
  ASSERT_TRUE(wait_for(**router, [&] {
    (*router)->receive(got);
    return !got.empty();
  }));
  EXPECT_EQ(got[0].identity, "p0/1");
}

// A raw DEALER that can send what our own channels never would.
class RawDealer {
 public:
  RawDealer(Context& context, const std::string& endpoint)
      : socket_(zmq_socket(context.handle(), ZMQ_DEALER)) {
    const int none = 0;
    zmq_setsockopt(socket_, ZMQ_LINGER, &none, sizeof(none));
    zmq_setsockopt(socket_, ZMQ_ROUTING_ID, "raw", 3);
    zmq_connect(socket_, endpoint.c_str());
  }
  ~RawDealer() { zmq_close(socket_); }
  void send(const std::string& part, bool more = false) {
    ASSERT_GE(zmq_send(socket_, part.data(), part.size(), more ? ZMQ_SNDMORE : 0), 0);
  }

 private:
  void* socket_;
};

TEST(ChannelTest, MalformedFramesAreCountedAndDropped) {
  Context context;
  auto router = RouterChannel::bind(context, "tcp://127.0.0.1:0");
  ASSERT_TRUE(router.ok());
  RawDealer raw(context, (*router)->endpoint());
  raw.send("garbage");
  raw.send("");
  raw.send("two", true);
  raw.send("parts");
  raw.send(encode_control(ControlT()));
  raw.send(encode_control(control_of(HeartbeatT())));

  std::vector<FromNode> got;
  ASSERT_TRUE(wait_for(**router, [&] {
    (*router)->receive(got);
    return !got.empty();
  }));
  EXPECT_EQ(got.size(), 1u) << "only the well-formed one arrives";
  EXPECT_EQ((*router)->counts().dropped, 4u);
  const auto dropped = (*router)->take_dropped();
  ASSERT_EQ(dropped.size(), 4u);
  for (const DroppedFrame& frame : dropped) {
    EXPECT_EQ(frame.identity, "raw");
    EXPECT_FALSE(frame.reason.empty());
  }
  EXPECT_TRUE((*router)->take_dropped().empty());
}

TEST(ChannelTest, OversizeFrameCostsTheConnection) {
  Context context;
  ChannelOptions options;
  options.frame_bytes_max = 1000;
  auto router = RouterChannel::bind(context, "tcp://127.0.0.1:0", options);
  ASSERT_TRUE(router.ok());
  RawDealer raw(context, (*router)->endpoint());
  raw.send(encode_control(control_of(HeartbeatT())));
  std::vector<FromNode> got;
  ASSERT_TRUE(wait_for(**router, [&] {
    (*router)->receive(got);
    return got.size() == 1;
  }));
  raw.send(std::string(2000, 'x'));
  ASSERT_TRUE(wait_for(**router, [&] {
    (*router)->receive(got);
    return !(*router)->send("raw", control_of(HeartbeatT())).ok();
  })) << "the peer stays connected";
  EXPECT_EQ(got.size(), 1u);
}

const char* only_hello(std::string_view bytes) { return bytes == "hello" ? nullptr : "no hello"; }

TEST(ChannelTest, PeersExchangeCheckedBytes) {
  Context context;
  auto server = PeerServer::bind(context, "127.0.0.1", "", only_hello);
  ASSERT_TRUE(server.ok()) << server.message();
  EXPECT_EQ((*server)->endpoint().rfind("tcp://127.0.0.1:", 0), 0u) << (*server)->endpoint();
  auto client = PeerClient::dial(context, (*server)->endpoint(), "d0/1", only_hello);
  ASSERT_TRUE(client.ok());
  ASSERT_TRUE(wait_for(**client, [&] { return (*client)->send("rubbish").ok(); }));
  ASSERT_TRUE(wait_for(**client, [&] { return (*client)->send("hello").ok(); }));
  std::vector<FromPeer> got;
  ASSERT_TRUE(wait_for(**server, [&] {
    (*server)->receive(got);
    return !got.empty();
  }));
  EXPECT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].identity, "d0/1");
  EXPECT_EQ((*server)->counts().dropped, 1u);
  ASSERT_TRUE((*server)->send("d0/1", "hello").ok());
  std::vector<std::string> answers;
  ASSERT_TRUE(wait_for(**client, [&] {
    (*client)->receive(answers);
    return !answers.empty();
  }));
  EXPECT_EQ(answers[0], "hello");
}

}  // namespace
}  // namespace penstock::wire
