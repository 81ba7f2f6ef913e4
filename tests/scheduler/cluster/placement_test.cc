#include "scheduler/cluster/placement.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/scheduler/cluster/cluster_fixture.h"

namespace penstock::scheduler {
namespace {

class PlacementTest : public ::testing::Test {
 protected:
  void SetUp() override {
    table.add(joined(1, NodeRole::kPrefill));
    table.add(joined(11, NodeRole::kDecode));
    table.connect(NodeId(1), NodeId(11), 1e9);
  }
  std::optional<Placement> choose(int32_t tokens, Disaggregate mode = Disaggregate::kAlways) {
    return choose_placement(table, {tokens, 20, mode}, rng);
  }
  NodeTable table;
  Rng rng{1};
};

TEST_F(PlacementTest, TheFasterPrefillNodeWinsUntilItsBacklogIsLonger) {
  NodeJoined fast = joined(2, NodeRole::kPrefill);
  fast.capacity.prefill_tokens_per_s = 4000;
  table.add(fast);
  table.connect(NodeId(2), NodeId(11), 1e9);
  EXPECT_EQ(choose(400)->prefill, NodeId(2));
  table.find(NodeId(2))->prefill_tokens = 1500;
  EXPECT_EQ(choose(400)->prefill, NodeId(1));
  EXPECT_EQ(choose(900)->prefill, NodeId(2));  // long enough to be worth the wait
}

TEST_F(PlacementTest, ASlowLinkIsAvoided) {
  table.add(joined(12, NodeRole::kDecode));
  table.connect(NodeId(1), NodeId(12), 1e5);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(choose(100)->decode, NodeId(11));
}

TEST_F(PlacementTest, EqualNodesAreDrawnBySeed) {
  table.add(joined(12, NodeRole::kDecode));
  table.connect(NodeId(1), NodeId(12), 1e9);
  std::map<NodeId, int> drawn;
  for (int i = 0; i < 200; ++i) ++drawn[choose(100)->decode];
  EXPECT_GT(drawn[NodeId(11)], 60);
  EXPECT_GT(drawn[NodeId(12)], 60);
}

TEST_F(PlacementTest, FullAndDrainingNodesAreNoCandidates) {
  EXPECT_TRUE(choose(1000).has_value());
  EXPECT_FALSE(choose(64 * 16 + 1).has_value());
  table.find(NodeId(11))->blocks_promised = 60;
  EXPECT_FALSE(choose(100).has_value());
  EXPECT_TRUE(choose(64).has_value());
  table.find(NodeId(11))->draining = true;
  EXPECT_FALSE(choose(64).has_value());
}

TEST_F(PlacementTest, MeasuredSlownessCounts) {
  table.add(joined(12, NodeRole::kDecode));
  table.connect(NodeId(1), NodeId(12), 1e9);
  NodeLoad slow;
  slow.node = NodeId(11);
  slow.running = 1;
  slow.decode_step_s = 1.0;  // it was measured at 20 ms
  table.report(slow);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(choose(100)->decode, NodeId(12));
}

TEST_F(PlacementTest, SaysWhyNothingCanServe) {
  const auto why = [this](int32_t tokens, Disaggregate mode) {
    return why_unserviceable(table, {tokens, 1, mode});
  };
  EXPECT_EQ(why(100, Disaggregate::kAlways), std::nullopt);
  EXPECT_EQ(why(64 * 16, Disaggregate::kAlways), RejectReason::kTooLong);
  table.disconnect(NodeId(1), NodeId(11));
  EXPECT_EQ(why(100, Disaggregate::kAlways), RejectReason::kNoPair);
  EXPECT_EQ(why(100, Disaggregate::kAuto), std::nullopt);
  table.remove(NodeId(1));
  EXPECT_EQ(why(100, Disaggregate::kAlways), RejectReason::kNoPrefillNode);
  table.remove(NodeId(11));
  EXPECT_EQ(why(100, Disaggregate::kNever), RejectReason::kNoDecodeNode);
}

}  // namespace
}  // namespace penstock::scheduler
