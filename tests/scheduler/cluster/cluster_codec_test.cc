#include "scheduler/cluster/cluster_codec.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/scheduler/cluster/cluster_fixture.h"

namespace penstock::scheduler {
namespace {

std::vector<ClusterEvent> every_event() {
  NodeLoad load{NodeId(3), 1, 2, 3, 4, 5, 6, 7000000000, 123.5, 0.25};
  return {joined(9, NodeRole::kDecode),
          NodeLost{NodeId(3)},
          PairUp{NodeId(1), NodeId(2), 7.5e9},
          PairDown{NodeId(1), NodeId(2)},
          load,
          Arrival{SequenceId(1ULL << 60), 20, 10, TimePoint::max()},
          TokenArrived{NodeId(3), SequenceId(4), Epoch(5), 6, -7, EndReason::kStop},
          HandoffDone{NodeId(3), SequenceId(4), Epoch(5), 1LL << 40, Duration{77}},
          ReserveRefused{NodeId(3), SequenceId(4), Epoch(5)},
          SequenceFailed{NodeId(3), SequenceId(4), Epoch(5), false, "why \"not\""},
          ClientGone{SequenceId(4)},
          StopFound{SequenceId(4)},
          DrainRequested{NodeId(4)},
          ShutdownRequested{},
          Tick{}};
}

std::vector<ClusterAction> every_action() {
  return {NodeAccepted{NodeId(1)},
          NodeRefused{NodeId(1), "because"},
          StartPrefill{SequenceId(1), Epoch(2), TransferId(3), NodeId(4), NodeId(5), 6},
          StartColocated{SequenceId(1), Epoch(2), NodeId(4), 6},
          AbortOn{NodeId(1), SequenceId(1), Epoch(2), AbortReason::kFinished},
          Deliver{SequenceId(1), 5, -1},
          Finish{SequenceId(1), EndReason::kLength},
          Reject{SequenceId(1), RejectReason::kTooLong, 400, 0},
          Fail{SequenceId(1), FailReason::kNotRetryable, std::string(100, 'x')},
          NodeDrained{NodeId(1)}};
}

TEST(ClusterCodec, EventsRoundTrip) {
  ClusterPolicy policy;
  policy.model = "m";
  policy.seed = 99;
  policy.first_transfer = TransferId(77);
  policy.gap_wait_max = Duration{123};
  std::vector<uint8_t> bytes;
  encode_record_header(policy, bytes);
  const auto events = every_event();
  ASSERT_EQ(events.size(), std::variant_size_v<ClusterEvent>);
  for (const ClusterEvent& event : events) encode_event(TimePoint{42}, event, bytes);

  RecordReader reader(bytes);
  const auto header = reader.read_header();
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->first_transfer, policy.first_transfer);
  std::vector<uint8_t> again;
  encode_record_header(*header, again);
  for (size_t i = 0; i < events.size(); ++i) {
    const auto timed = reader.read_event();
    ASSERT_TRUE(timed.ok()) << timed.message();
    EXPECT_EQ(timed->event.index(), i);
    encode_event(timed->now, timed->event, again);
  }
  EXPECT_TRUE(reader.at_end());
  EXPECT_EQ(again, bytes);
}

TEST(ClusterCodec, ActionsRoundTrip) {
  const auto actions = every_action();
  ASSERT_EQ(actions.size(), std::variant_size_v<ClusterAction>);
  for (size_t i = 0; i < actions.size(); ++i) {
    std::vector<uint8_t> bytes, again;
    encode_action(actions[i], bytes);
    const auto decoded = decode_action(bytes);
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(decoded->index(), i);
    encode_action(*decoded, again);
    EXPECT_EQ(again, bytes);
  }
}

TEST(ClusterCodec, TheWireOrderIsFixed) {
  std::vector<uint8_t> bytes;
  encode_event(TimePoint{0x0102}, TokenArrived{NodeId(3), SequenceId(4), Epoch(5), 6, -1, EndReason::kStop},
               bytes);
  const std::vector<uint8_t> expected = {34, 0, 0, 0,                    // bytes that follow
                                         2,  1, 0, 0, 0,   0,   0,   0,  // now
                                         6,                              // TokenArrived
                                         3,  0, 0, 0, 4,   0,   0,   0,   0,
                                         0,  0, 0, 5, 0,   0,   0,             // node, sequence, epoch
                                         6,  0, 0, 0, 255, 255, 255, 255, 1};  // position, token, end
  EXPECT_EQ(bytes, expected);
}

TEST(ClusterCodec, EveryTruncationIsCorrupt) {
  std::vector<uint8_t> bytes;
  for (const ClusterEvent& event : every_event()) {
    bytes.clear();
    encode_event(TimePoint{1}, event, bytes);
    for (size_t size = 0; size < bytes.size(); ++size) {
      RecordReader reader(std::span<const uint8_t>(bytes).first(size));
      const auto result = reader.read_event();
      ASSERT_FALSE(result.ok());
      EXPECT_EQ(result.code(), Error::kCorrupt);
    }
  }
  RecordReader empty(std::span<const uint8_t>{});
  EXPECT_FALSE(empty.read_header().ok());
}

TEST(ClusterCodec, RandomBytesNeverCrash) {
  Rng rng(5);
  for (int i = 0; i < 20000; ++i) {
    std::vector<uint8_t> bytes;
    const auto events = every_event();
    encode_event(TimePoint{1}, events[rng.below(events.size())], bytes);
    for (int flips = 0; flips < 3; ++flips) bytes[rng.below(bytes.size())] = static_cast<uint8_t>(rng());
    RecordReader reader(bytes);
    const auto event = reader.read_event();
    EXPECT_TRUE(event.ok() || event.code() == Error::kCorrupt);
    const auto action = decode_action(bytes);
    EXPECT_TRUE(action.ok() || action.code() == Error::kCorrupt);
  }
}

TEST(ActionHash, SeesEveryFieldAndTheTime) {
  const auto hash_of = [](TimePoint now, const ClusterActions& actions) {
    ActionHash hash;
    hash.add(now, actions);
    return hash.value();
  };
  const ClusterActions a = {Deliver{SequenceId(1), 2, 3}};
  EXPECT_EQ(hash_of({1}, a), hash_of({1}, a));
  EXPECT_NE(hash_of({1}, a), hash_of({2}, a));
  EXPECT_NE(hash_of({1}, a), hash_of({1}, {Deliver{SequenceId(1), 2, 4}}));
  EXPECT_NE(hash_of({1}, a), hash_of({1}, {Deliver{SequenceId(1), 2, 3}, Deliver{SequenceId(1), 2, 3}}));
}

}  // namespace
}  // namespace penstock::scheduler
