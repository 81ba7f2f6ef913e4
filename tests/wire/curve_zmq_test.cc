#include "wire/curve_zmq.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "wire/channel_zmq.h"

namespace penstock::wire {
namespace {

CurveKeys make_keys() {
  char public_key[41], secret_key[41];
  EXPECT_EQ(zmq_curve_keypair(public_key, secret_key), 0);
  return {public_key, secret_key};
}

const char* accept_any(std::string_view) { return nullptr; }

// A router and what it says, hears and refuses.
class CurveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(zmq_has("curve"), 0) << "this libzmq was built without CURVE";
    router_keys_ = make_keys();
    node_keys_ = make_keys();
    router_keys_.client_key = node_keys_.public_key;
    node_keys_.server_key = router_keys_.public_key;
  }
  static ChannelOptions with(const CurveKeys& keys) {
    ChannelOptions options;
    options.curve = keys;
    options.reconnect = Duration::from_ms(10);
    options.reconnect_max = Duration::from_ms(50);
    return options;
  }
  std::unique_ptr<RouterChannel> router(const CurveKeys& keys) {
    auto bound = RouterChannel::bind(context_, "tcp://127.0.0.1:0", with(keys));
    EXPECT_TRUE(bound.ok()) << bound.message();
    return std::move(bound).value();
  }
  std::unique_ptr<NodeChannel> node(const RouterChannel& to, const CurveKeys& keys) {
    auto dialled = NodeChannel::dial(context_, to.endpoint(), "n/1", with(keys));
    EXPECT_TRUE(dialled.ok()) << dialled.message();
    return std::move(dialled).value();
  }
  static ControlT a_message() {
    RegisterT message;
    message.name = "n";
    message.capability = std::make_unique<CapabilityT>();
    message.capacity = std::make_unique<CapacityT>();
    return control_of(std::move(message));
  }
  template <typename Done>
  static bool eventually(Done done) {
    for (int i = 0; i < 2000; ++i) {
      if (done()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return done();
  }
  // The pair of them cannot talk; each side's reasons hold what is expected.
  void expect_refused(const CurveKeys& router_keys, const CurveKeys& node_keys, const std::string& at_router,
                      const std::string& at_node) {
    const auto server = router(router_keys);
    const auto client = node(*server, node_keys);
    std::string heard_at_router, heard_at_node;
    std::vector<FromNode> got;
    EXPECT_TRUE(eventually([&] {
      const Status sent = client->send(a_message());
      EXPECT_FALSE(sent.ok()) << "it was let in";
      if (!sent.ok()) heard_at_node = sent.message();
      server->receive(got);
      for (const std::string& reason : server->take_refused()) heard_at_router += reason + "\n";
      return heard_at_router.find(at_router) != std::string::npos &&
             heard_at_node.find(at_node) != std::string::npos;
    })) << "at the router: "
        << heard_at_router << "\nat the node: " << heard_at_node;
    EXPECT_TRUE(got.empty());
  }

  Context context_;
  CurveKeys router_keys_, node_keys_;
};

TEST_F(CurveTest, TheClustersKeysAreLetIn) {
  const auto server = router(router_keys_);
  const auto client = node(*server, node_keys_);
  std::vector<FromNode> got;
  EXPECT_TRUE(eventually([&] { return client->send(a_message()).ok(); }));
  EXPECT_TRUE(eventually([&] {
    server->receive(got);
    return !got.empty();
  }));
  ASSERT_TRUE(server->send(got.at(0).identity, control_of(DrainT())).ok());
  std::vector<std::unique_ptr<ControlT>> answers;
  EXPECT_TRUE(eventually([&] {
    client->receive(answers);
    return !answers.empty();
  }));
  EXPECT_TRUE(server->take_refused().empty());
}

TEST_F(CurveTest, AnotherClientKeyIsRefusedByName) {
  CurveKeys stranger = make_keys();
  stranger.server_key = router_keys_.public_key;
  expect_refused(router_keys_, stranger, "has the key " + stranger.public_key,
                 "our CURVE key is refused there");
}

TEST_F(CurveTest, ANodeWithoutKeysIsRefused) {
  expect_refused(router_keys_, {}, "without", "CURVE is on there and off here: set the four keys");
}

TEST_F(CurveTest, ANodeThatExpectsAnotherRouterIsRefused) {
  node_keys_.server_key = make_keys().public_key;
  expect_refused(router_keys_, node_keys_, "a client expects another public key here",
                 "is [curve] router_public_key right?");
}

TEST_F(CurveTest, ARouterWithoutKeysIsNotTrusted) {
  expect_refused({}, node_keys_, "", "CURVE is off there and on here");
}

TEST_F(CurveTest, ARefusalIsToldOnceInTenSeconds) {
  const auto server = router(router_keys_);
  const auto client = node(*server, {});
  std::map<std::string, int> told;
  const auto listen = [&] {
    for (const std::string& reason : server->take_refused()) ++told[reason];
    return !told.empty();
  };
  EXPECT_TRUE(eventually(listen));
  for (int i = 0; i < 40; ++i) {  // it dials on all the time
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    listen();
  }
  for (const auto& [reason, times] : told) EXPECT_EQ(times, 1) << reason;
}

TEST_F(CurveTest, PeersShareThePairOfTheNodes) {
  auto server = PeerServer::bind(context_, "127.0.0.1", "", accept_any, with(node_keys_));
  ASSERT_TRUE(server.ok()) << server.message();
  auto friendly = PeerClient::dial(context_, (*server)->endpoint(), "p0/1", accept_any, with(node_keys_));
  ASSERT_TRUE(friendly.ok());
  auto plain = PeerClient::dial(context_, (*server)->endpoint(), "p1/1", accept_any, with({}));
  ASSERT_TRUE(plain.ok());
  CurveKeys other = make_keys();
  other.server_key = router_keys_.public_key;
  auto stranger = PeerClient::dial(context_, (*server)->endpoint(), "p2/1", accept_any, with(other));
  ASSERT_TRUE(stranger.ok());
  std::vector<FromPeer> got;
  std::string refused;
  EXPECT_TRUE(eventually([&] { return (*friendly)->send("hello").ok(); }));
  EXPECT_TRUE(eventually([&] {
    EXPECT_FALSE((*plain)->send("hello").ok());
    EXPECT_FALSE((*stranger)->send("hello").ok());
    (*server)->receive(got);
    for (const std::string& reason : (*server)->take_refused()) refused += reason + "\n";
    return !got.empty() && refused.find("without") != std::string::npos &&
           refused.find("another public key") != std::string::npos;
  })) << refused;
  EXPECT_EQ(got.at(0).identity, "p0/1");
}

TEST_F(CurveTest, KeysOfTheWrongLengthAreNamed) {
  const auto bound = RouterChannel::bind(context_, "tcp://127.0.0.1:0", with({"short", "keys"}));
  ASSERT_FALSE(bound.ok());
  EXPECT_NE(bound.message().find("[curve] public_key"), std::string::npos) << bound.message();
  CurveKeys open = make_keys();
  const auto everybody = RouterChannel::bind(context_, "tcp://127.0.0.1:0", with(open));
  ASSERT_FALSE(everybody.ok()) << "a server must know whom to let in";
  EXPECT_NE(everybody.message().find("client_key"), std::string::npos) << everybody.message();
}

// ---- Key files --------------------------------------------------------------------------------------------

class KeyFileTest : public ::testing::Test {
 protected:
  KeyFileTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "penstock_keys_XXXXXX").string();
    dir_ = ::mkdtemp(pattern.data());
  }
  ~KeyFileTest() override { std::filesystem::remove_all(dir_); }
  std::string write(const std::string& text, mode_t mode = 0600) {
    const std::string path = dir_ + "/secret";
    std::ofstream(path) << text;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  static std::string error_of(const std::string& public_key, const std::string& path) {
    const auto keys = load_curve_pair("node", public_key, path);
    EXPECT_FALSE(keys.ok());
    return keys.ok() ? "" : keys.message();
  }
  std::string dir_;
};

TEST_F(KeyFileTest, APairIsLoaded) {
  const CurveKeys pair = make_keys();
  for (const mode_t mode : {0600, 0400, 0640}) {
    const auto keys = load_curve_pair("node", pair.public_key, write(pair.secret_key + "\n", mode));
    ASSERT_TRUE(keys.ok()) << keys.message();
    EXPECT_EQ(keys->public_key, pair.public_key);
    EXPECT_EQ(keys->secret_key, pair.secret_key);
  }
}

TEST_F(KeyFileTest, AFileThatOthersCanReadIsRefused) {
  const CurveKeys pair = make_keys();
  for (const mode_t mode : {0644, 0604, 0602, 0666}) {
    const std::string path = write(pair.secret_key, mode);
    const std::string error = error_of(pair.public_key, path);
    EXPECT_NE(error.find("[curve] node_secret_key_file: " + path), std::string::npos) << error;
    EXPECT_NE(error.find("chmod"), std::string::npos) << error;
  }
}

TEST_F(KeyFileTest, HalvesOfDifferentPairsAreRefused) {
  const std::string error = error_of(make_keys().public_key, write(make_keys().secret_key));
  EXPECT_NE(error.find("does not belong to node_public_key"), std::string::npos) << error;
}

TEST_F(KeyFileTest, WhatIsNoKeyIsRefused) {
  const std::string public_key = make_keys().public_key;
  EXPECT_NE(error_of(public_key, dir_ + "/none").find("No such file"), std::string::npos);
  EXPECT_NE(error_of(public_key, write("")).find("40 characters"), std::string::npos);
  EXPECT_NE(error_of(public_key, write("short")).find("40 characters"), std::string::npos);
  EXPECT_NE(error_of(public_key, write(std::string(40, '"'))).find("no Z85"), std::string::npos);
}

}  // namespace
}  // namespace penstock::wire
