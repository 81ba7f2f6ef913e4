#include "scheduler/cluster/cluster_scheduler.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/scheduler/cluster/cluster_fixture.h"

namespace penstock::scheduler {
namespace {

TEST(ClusterScheduler, OneRequestFromPairToFinish) {
  Cluster c;
  c.join({1}, {11});
  const StartPrefill start = c.start(7, 20, 3);
  EXPECT_EQ(start.prefill, NodeId(1));
  EXPECT_EQ(start.decode, NodeId(11));
  EXPECT_EQ(start.epoch, Epoch(1));
  EXPECT_EQ(start.tokens, 20);
  EXPECT_NE(start.transfer, TransferId());
  const auto first = all<Deliver>(c.token(NodeId(1), start, 20));
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].position, 20);
  EXPECT_EQ(first[0].token, 120);
  EXPECT_TRUE(c.handoff_done(start).empty());
  c.token(NodeId(11), start, 21);
  const auto last = c.token(NodeId(11), start, 22, EndReason::kLength);
  ASSERT_EQ(last.size(), 2u);  // Deliver, Finish; nothing to abort
  EXPECT_EQ(std::get<Finish>(last[1]).reason, EndReason::kLength);
  EXPECT_TRUE(c.scheduler.idle());
  EXPECT_EQ(c.scheduler.next_wakeup(), TimePoint::max());
}

TEST(ClusterScheduler, TransfersCountFromThePolicysFirst) {
  ClusterPolicy policy = Cluster::always();
  policy.first_transfer = TransferId(1000);
  Cluster c(policy);
  c.join({1}, {11});
  EXPECT_EQ(c.start(7).transfer, TransferId(1000));
  EXPECT_EQ(c.start(8).transfer, TransferId(1001));
}

TEST(ClusterScheduler, DropsRepeatedAndReordersTokens) {
  Cluster c;
  c.join({1}, {11});
  const StartPrefill start = c.start(7);
  EXPECT_TRUE(c.token(NodeId(11), start, 21).empty());  // D was faster than P's frame
  EXPECT_TRUE(c.token(NodeId(11), start, 22).empty());
  EXPECT_TRUE(c.token(NodeId(11), start, 22).empty());
  const auto delivered = all<Deliver>(c.token(NodeId(1), start, 20));
  ASSERT_EQ(delivered.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(delivered[static_cast<size_t>(i)].position, 20 + i);
  EXPECT_TRUE(c.token(NodeId(11), start, 21).empty());
  EXPECT_EQ(c.scheduler.stats().tokens_dropped, 2u);
}

TEST(ClusterScheduler, AMissingTokenIsReplayedAfterAWhile) {
  Cluster c;
  c.join({1}, {11});
  const StartPrefill start = c.start(7);
  c.token(NodeId(1), start, 20);
  c.token(NodeId(11), start, 22);  // 21 is missing
  EXPECT_TRUE(c.after_ms(900).empty());
  const auto actions = c.after_ms(200);
  EXPECT_EQ(all<AbortOn>(actions).size(), 1u);  // P is through
  const auto again = all<StartPrefill>(actions);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].epoch, Epoch(2));
  EXPECT_EQ(again[0].tokens, 21);
}

TEST(ClusterScheduler, TheDeathOfDReplaysElsewhere) {
  Cluster c;
  c.join({1, 2}, {11, 12});
  const StartPrefill start = c.start(7);
  c.token(start.prefill, start, 20);
  c.handoff_done(start);
  c.token(start.decode, start, 21);
  const auto actions = c.send(NodeLost{start.decode});
  EXPECT_TRUE(all<AbortOn>(actions).empty());
  const auto again = all<StartPrefill>(actions);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_NE(again[0].decode, start.decode);
  EXPECT_EQ(again[0].tokens, 22);
  EXPECT_NE(again[0].transfer, start.transfer);
  EXPECT_EQ(all<Deliver>(c.token(again[0].prefill, again[0], 22)).size(), 1u);
}

TEST(ClusterScheduler, TheDeathOfPCountsOnlyBeforeTheHandoff) {
  Cluster c;
  c.join({1, 2}, {11, 12});
  const StartPrefill before = c.start(7);
  EXPECT_EQ(all<StartPrefill>(c.send(NodeLost{before.prefill})).size(), 1u);
  Cluster d;
  d.join({1, 2}, {11, 12});
  const StartPrefill after = d.start(8);
  d.token(after.prefill, after, 20);
  d.handoff_done(after);
  EXPECT_TRUE(d.send(NodeLost{after.prefill}).empty());
  EXPECT_EQ(all<Deliver>(d.token(after.decode, after, 21)).size(), 1u);
}

TEST(ClusterScheduler, StaleEpochsAreIgnoredAndAborted) {
  Cluster c;
  c.join({1, 2}, {11, 12});
  const StartPrefill start = c.start(7);
  const auto replayed = c.send(SequenceFailed{start.prefill, SequenceId(7), Epoch(1), true, "x"});
  const StartPrefill again = all<StartPrefill>(replayed).at(0);
  const auto stale = c.send(TokenArrived{start.decode, SequenceId(7), Epoch(1), 20, 999, EndReason::kNone});
  ASSERT_EQ(stale.size(), 1u);
  EXPECT_EQ(std::get<AbortOn>(stale[0]).reason, AbortReason::kStale);
  EXPECT_EQ(std::get<AbortOn>(stale[0]).epoch, Epoch(1));
  EXPECT_EQ(all<Deliver>(c.token(again.prefill, again, 20))[0].token, 120);
}

TEST(ClusterScheduler, WithoutAnotherPairItFailsInTime) {
  Cluster c;
  c.join({1}, {11});
  const StartPrefill start = c.start(7);
  c.token(start.prefill, start, 20);
  EXPECT_TRUE(all<Fail>(c.send(NodeLost{NodeId(11)})).empty());
  EXPECT_LE(c.scheduler.next_wakeup(), c.now + Duration::from_ms(2500));
  EXPECT_TRUE(c.after_ms(2000).empty());
  const auto failed = all<Fail>(c.after_ms(500));
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].reason, FailReason::kNoOtherPair);
  EXPECT_TRUE(c.scheduler.idle());
}

TEST(ClusterScheduler, ANodeThatComesBackInTimeSavesTheRequest) {
  Cluster c;
  c.join({1}, {11});
  c.start(7);
  c.send(NodeLost{NodeId(11)});
  c.after_ms(1500);
  c.send(joined(12, NodeRole::kDecode));
  EXPECT_EQ(all<StartPrefill>(c.send(PairUp{NodeId(1), NodeId(12), 1e9})).size(), 1u);
  EXPECT_TRUE(all<Fail>(c.after_ms(3000)).empty());
}

TEST(ClusterScheduler, AttemptsAreBounded) {
  ClusterPolicy policy = Cluster::always();
  policy.attempts_max = 3;
  Cluster c(policy);
  c.join({1}, {11});
  c.start(7);
  for (uint32_t epoch = 1; epoch <= 2; ++epoch)
    EXPECT_EQ(
        all<StartPrefill>(c.send(SequenceFailed{NodeId(1), SequenceId(7), Epoch(epoch), true, ""})).size(),
        1u);
  const auto failed = all<Fail>(c.send(SequenceFailed{NodeId(1), SequenceId(7), Epoch(3), true, ""}));
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].reason, FailReason::kTooManyAttempts);
}

TEST(ClusterScheduler, AFailureThatIsNotRetryableReachesTheClient) {
  Cluster c;
  c.join({1}, {11});
  c.start(7);
  const auto actions =
      c.send(SequenceFailed{NodeId(1), SequenceId(7), Epoch(1), false, "prompt over the context"});
  EXPECT_EQ(all<AbortOn>(actions).size(), 2u);
  EXPECT_EQ(all<Fail>(actions).at(0).message, "prompt over the context");
}

TEST(ClusterScheduler, ClientGoneAndStopStringsAbortBothSides) {
  Cluster c;
  c.join({1}, {11});
  c.start(7);
  auto actions = c.send(ClientGone{SequenceId(7)});
  EXPECT_EQ(all<AbortOn>(actions).size(), 2u);
  EXPECT_EQ(all<Finish>(actions).at(0).reason, EndReason::kAborted);
  EXPECT_TRUE(c.send(ClientGone{SequenceId(7)}).empty());
  const StartPrefill start = c.start(8);
  c.token(NodeId(1), start, 20);
  c.handoff_done(start);
  actions = c.send(StopFound{SequenceId(8)});
  ASSERT_EQ(all<AbortOn>(actions).size(), 1u);
  EXPECT_EQ(all<AbortOn>(actions)[0].node, NodeId(11));
  EXPECT_EQ(all<Finish>(actions).at(0).reason, EndReason::kStop);
}

TEST(ClusterScheduler, AFirstTokenThatEndsNeedsNoHandoff) {
  Cluster c;
  c.join({1}, {11});
  const StartPrefill start = c.start(7, 20, 1);
  const auto actions = c.token(NodeId(1), start, 20, EndReason::kLength);
  EXPECT_EQ(all<Finish>(actions).size(), 1u);
  ASSERT_EQ(all<AbortOn>(actions).size(), 1u);  // D may hold a reservation
  EXPECT_EQ(all<AbortOn>(actions)[0].node, NodeId(11));
}

TEST(ClusterScheduler, CreditsHoldRequestsBackUntilThereIsRoom) {
  Cluster c;
  c.join({1}, {11}, 4);  // 64 tokens
  c.start(1, 40, 10);    // 3 of 4 blocks
  EXPECT_TRUE(c.arrive(2, 20, 10).empty());
  EXPECT_EQ(c.scheduler.stats().queued, 1);
  const auto actions = c.send(ClientGone{SequenceId(1)});
  EXPECT_EQ(all<StartPrefill>(actions).at(0).sequence, SequenceId(2));
}

TEST(ClusterScheduler, ARefusalWaitsForTheNextReport) {
  Cluster c;
  c.join({1}, {11});
  c.start(7);
  EXPECT_TRUE(all<StartPrefill>(c.send(ReserveRefused{NodeId(1), SequenceId(7), Epoch(1)})).empty());
  NodeLoad load;
  load.node = NodeId(11);
  EXPECT_EQ(all<StartPrefill>(c.send(load)).at(0).epoch, Epoch(2));
}

TEST(ClusterScheduler, RejectsWithReasonAndRetryAfter) {
  ClusterPolicy policy = Cluster::always();
  policy.queue_len_max = 1;
  Cluster c(policy);
  EXPECT_EQ(all<Reject>(c.arrive(1)).at(0).reason, RejectReason::kNoDecodeNode);
  c.send(joined(11, NodeRole::kDecode, 4));
  EXPECT_EQ(all<Reject>(c.arrive(2)).at(0).reason, RejectReason::kNoPrefillNode);
  c.send(joined(1, NodeRole::kPrefill, 4));
  const auto no_pair = all<Reject>(c.arrive(3)).at(0);
  EXPECT_EQ(no_pair.reason, RejectReason::kNoPair);
  EXPECT_EQ(no_pair.http_status, 503);
  EXPECT_GE(no_pair.retry_after_s, 1);
  c.send(PairUp{NodeId(1), NodeId(11), 1e9});
  EXPECT_EQ(all<Reject>(c.arrive(4, 64)).at(0).http_status, 400);
  c.start(5, 40);
  EXPECT_TRUE(c.arrive(6, 40, 10, c.now + Duration::from_ms(500)).empty());
  const auto full = all<Reject>(c.arrive(7)).at(0);
  EXPECT_EQ(full.reason, RejectReason::kQueueFull);
  EXPECT_EQ(full.http_status, 429);
  EXPECT_GE(full.retry_after_s, 1);
  EXPECT_EQ(c.scheduler.next_wakeup(), c.now + Duration::from_ms(500));
  const auto late = all<Reject>(c.after_ms(500)).at(0);
  EXPECT_EQ(late.sequence, SequenceId(6));
  EXPECT_EQ(late.reason, RejectReason::kDeadline);
  c.send(ShutdownRequested{});
  EXPECT_EQ(all<Reject>(c.arrive(8)).at(0).reason, RejectReason::kShuttingDown);
}

TEST(ClusterScheduler, ADeadlineThatCannotBeMetIsRejectedAtOnce) {
  Cluster c;
  c.join({1}, {11}, 4);
  c.start(1, 40);
  for (uint64_t id = 2; id < 30; ++id) EXPECT_TRUE(c.arrive(id, 50).empty());
  EXPECT_EQ(all<Reject>(c.arrive(99, 50, 10, c.now + Duration::from_ms(10))).at(0).reason,
            RejectReason::kDeadline);
}

TEST(ClusterScheduler, IncompatibleNodesAreRefusedWithBothSidesNamed) {
  ClusterPolicy policy = Cluster::always();
  policy.model = "m";
  Cluster c(policy);
  NodeJoined other = joined(1, NodeRole::kPrefill);
  other.capability.model = "other";
  EXPECT_EQ(all<NodeRefused>(c.send(other)).at(0).reason, "model: node has other, cluster has m");
  c.send(joined(2, NodeRole::kPrefill));
  NodeJoined layout = joined(3, NodeRole::kDecode);
  layout.capability.layout_hash = LayoutHash(5);
  layout.capability.block_tokens = 32;
  EXPECT_EQ(all<NodeRefused>(c.send(layout)).at(0).reason,
            "block_tokens: node has 32, cluster has 16; layout_hash: node has 5, cluster has 0");
  EXPECT_EQ(c.scheduler.stats().nodes, 1);
}

TEST(ClusterScheduler, ADrainingNodeFinishesAndGetsNothingNew) {
  Cluster c;
  c.join({1}, {11, 12});
  const StartPrefill start = c.start(7, 20, 2);
  c.token(start.prefill, start, 20);
  c.handoff_done(start);
  EXPECT_TRUE(c.send(DrainRequested{start.decode}).empty());
  for (uint64_t id = 20; id < 30; ++id) EXPECT_NE(c.start(id).decode, start.decode);
  const auto done = c.token(start.decode, start, 21, EndReason::kLength);
  EXPECT_EQ(all<NodeDrained>(done).at(0).node, start.decode);
}

TEST(ClusterScheduler, SpreadsLoadAndBreaksTiesBySeed) {
  Cluster c;
  c.join({1, 2}, {11, 12});
  std::map<NodeId, int> prefill, decode;
  for (uint64_t id = 1; id <= 12; ++id) {
    const StartPrefill start = c.start(id);
    ++prefill[start.prefill];
    ++decode[start.decode];
  }
  EXPECT_EQ(prefill[NodeId(1)], 6);
  EXPECT_EQ(decode[NodeId(11)], 6);
}

TEST(ClusterScheduler, AutoPrefersTheDecodeNodeWhenItIsIdleAndThePairWhenItIsNot) {
  ClusterPolicy policy;
  policy.disaggregate = Disaggregate::kAuto;
  Cluster c(policy);
  c.join({1}, {11});
  const auto alone = all<StartColocated>(c.arrive(1, 100, 50));
  ASSERT_EQ(alone.size(), 1u);  // nobody to disturb, no transfer
  c.send(TokenArrived{NodeId(11), SequenceId(1), Epoch(1), 100, 5, EndReason::kNone});
  EXPECT_EQ(all<StartPrefill>(c.arrive(2, 100, 50)).size(), 1u);  // its prefill would stall sequence 1
}

TEST(ClusterScheduler, NeverRunsAllOnDecodeNodes) {
  ClusterPolicy policy;
  policy.disaggregate = Disaggregate::kNever;
  Cluster c(policy);
  c.send(joined(11, NodeRole::kDecode));
  const auto start = all<StartColocated>(c.arrive(1, 20, 2)).at(0);
  EXPECT_EQ(start.node, NodeId(11));
  c.send(TokenArrived{NodeId(11), SequenceId(1), Epoch(1), 20, 5, EndReason::kNone});
  const auto last = c.send(TokenArrived{NodeId(11), SequenceId(1), Epoch(1), 21, 5, EndReason::kStop});
  EXPECT_EQ(all<Finish>(last).at(0).reason, EndReason::kStop);
  EXPECT_TRUE(all<AbortOn>(last).empty());
}

TEST(ClusterScheduler, ASilentAttemptIsReplayed) {
  Cluster c;
  c.join({1}, {11});
  c.start(7);
  EXPECT_TRUE(c.after_ms(29000).empty());
  const auto actions = c.after_ms(2000);
  EXPECT_EQ(all<AbortOn>(actions).size(), 2u);
  EXPECT_EQ(all<StartPrefill>(actions).at(0).epoch, Epoch(2));
}

}  // namespace
}  // namespace penstock::scheduler
