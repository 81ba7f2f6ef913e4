#include "node/transfer_loop.h"

#include <gtest/gtest.h>

#include "tests/node/role_world.h"

namespace penstock {
namespace {

struct TwoNodes {
  explicit TwoNodes(bool network_lanes = false)
      : world(options(network_lanes)), p(world.add(NodeRole::kPrefill)), d(world.add(NodeRole::kDecode)) {}
  static RoleWorldOptions options(bool network_lanes) {
    RoleWorldOptions options;
    options.network.network_lanes = network_lanes;
    // Leases and deadlines end nothing here: what the loop sees does.
    options.handoff.lease = options.handoff.deadline = Duration::from_ms(3'600'000);
    return options;
  }
  void expect_works(uint64_t id) {
    RoutedSequence& sequence = world.request(id, {1, 2, 3, 4, 5});
    world.start_split(sequence, p, d);
    world.settle();
    EXPECT_EQ(sequence.ids(), PoolRunner::continuation(sequence.prompt, 12)) << sequence.message;
    EXPECT_TRUE(p.at_rest() && d.at_rest());
  }
  RoleWorld world;
  RoleNode& p;
  RoleNode& d;
};

TEST(TransferLoop, ThePairIsReadyOnceOnTheSideThatDialled) {
  TwoNodes nodes;
  nodes.world.connect(nodes.p, nodes.d, true);
  nodes.world.pass(Duration::from_ms(10'000));
  ASSERT_EQ(nodes.p.ready.size(), 1u);
  EXPECT_EQ(nodes.p.ready[0].identity, nodes.d.identity);
  EXPECT_NE(nodes.p.ready[0].lanes.find("memory"), std::string::npos);
  EXPECT_TRUE(nodes.d.ready.empty());
  EXPECT_TRUE(nodes.p.broken.empty() && nodes.d.broken.empty()) << "heartbeats keep a quiet pair";
}

TEST(TransferLoop, APeerThatNeverAnswersIsGivenUpAndMayComeLater) {
  TwoNodes nodes;
  nodes.world.dial(nodes.p, nodes.d, true);
  nodes.world.pass(Duration::from_ms(10'000));
  EXPECT_TRUE(nodes.p.ready.empty());
  ASSERT_EQ(nodes.p.broken.size(), 1u);
  EXPECT_EQ(nodes.p.broken[0].identity, nodes.d.identity);
  EXPECT_NE(nodes.p.broken[0].reason.find("no first heartbeat"), std::string::npos);
  nodes.world.connect(nodes.p, nodes.d, true);
  EXPECT_EQ(nodes.p.ready.size(), 1u);
  nodes.expect_works(1);
}

// Over shared memory a silent peer may only be stopped, and its connection is kept; over a network it is
// gone.
TEST(TransferLoop, ASilentPeerIsToldOnceAndWorksAgainWhenHeard) {
  for (const bool network_lanes : {false, true}) {
    TwoNodes nodes(network_lanes);
    nodes.world.connect(nodes.p, nodes.d, true);
    nodes.world.stop(nodes.d);
    nodes.world.pass(Duration::from_ms(10'000));
    ASSERT_EQ(nodes.p.broken.size(), 1u);
    EXPECT_EQ(nodes.p.broken[0].reason, "no heartbeat");
    nodes.world.resume(nodes.d);
    nodes.world.pass(Duration::from_ms(1'000));
    EXPECT_EQ(nodes.p.ready.size(), network_lanes ? 1u : 2u);
    if (network_lanes) nodes.world.connect(nodes.p, nodes.d, true);
    EXPECT_EQ(nodes.p.ready.size(), 2u);
    nodes.expect_works(1);
  }
}

// Silence ends what runs, on whichever side it is heard; the blocks wait for the writer all the same.
TEST(TransferLoop, SilenceFailsTheHandoffsUnderWay) {
  for (const bool decode_stops : {true, false}) {
    TwoNodes nodes;
    nodes.world.connect(nodes.p, nodes.d, true);
    RoutedSequence& sequence = nodes.world.request(1, std::vector<TokenId>(60, 7));
    nodes.world.start_split(sequence, nodes.p, nodes.d);
    while (nodes.d.engine->load().blocks_leased == 0) nodes.world.turn();
    nodes.world.stop(decode_stops ? nodes.d : nodes.p);
    nodes.world.pass(Duration::from_ms(3'000));
    if (decode_stops) {
      EXPECT_EQ(sequence.failed, 1);
      EXPECT_NE(sequence.message.find("heartbeat"), std::string::npos) << sequence.message;
      EXPECT_TRUE(nodes.p.at_rest());
    } else {
      EXPECT_EQ(nodes.d.engine->load().blocks_quarantined, 4);
    }
    nodes.world.resume(decode_stops ? nodes.d : nodes.p);
    nodes.world.pass(Duration::from_ms(6'000));
    EXPECT_TRUE(nodes.p.at_rest() && nodes.d.at_rest());
    nodes.expect_works(2);
  }
}

TEST(TransferLoop, ADeadPeerIsToldAtOnceAndCannotBeDialled) {
  TwoNodes nodes;
  nodes.world.connect(nodes.p, nodes.d, true);
  nodes.world.kill(nodes.d);
  nodes.world.settle();
  ASSERT_EQ(nodes.p.broken.size(), 1u);
  EXPECT_NE(nodes.p.broken[0].reason.find("exited"), std::string::npos) << nodes.p.broken[0].reason;
  nodes.world.dial(nodes.p, nodes.d, true);
  nodes.world.settle();
  ASSERT_EQ(nodes.p.broken.size(), 2u);
  EXPECT_EQ(nodes.p.ready.size(), 1u);
}

// A new hello of the same life replaces the connection: what ran over the old one fails, on both sides.
TEST(TransferLoop, AnotherHelloReplacesTheConnectionAndFailsWhatRan) {
  TwoNodes nodes;
  nodes.world.connect(nodes.p, nodes.d, true);
  RoutedSequence& sequence = nodes.world.request(1, std::vector<TokenId>(60, 7));
  nodes.world.start_split(sequence, nodes.p, nodes.d);
  while (nodes.d.engine->load().blocks_leased == 0) nodes.world.turn();
  nodes.world.stop(nodes.p);  // D hears of the new connection first
  nodes.world.dial(nodes.d, nodes.p);
  nodes.world.settle();
  EXPECT_EQ(nodes.d.engine->load().blocks_quarantined, 4);
  nodes.world.resume(nodes.p);
  nodes.world.dial(nodes.p, nodes.d, true);
  nodes.world.settle();
  EXPECT_EQ(sequence.failed, 1);
  EXPECT_EQ(sequence.code, wire::ErrorCode::Unavailable);
  EXPECT_EQ(nodes.p.ready.size(), 2u);
  EXPECT_TRUE(nodes.p.broken.empty() && nodes.d.broken.empty()) << "replaced is not broken";
  nodes.world.pass(Duration::from_ms(10'000));
  EXPECT_TRUE(nodes.p.at_rest() && nodes.d.at_rest());
  nodes.expect_works(2);
}

}  // namespace
}  // namespace penstock
