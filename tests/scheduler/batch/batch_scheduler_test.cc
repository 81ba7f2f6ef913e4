#include "scheduler/batch/batch_scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/rng.h"

namespace penstock::scheduler {
namespace {

SequenceKey key(uint64_t sequence, uint32_t epoch = 1) { return {SequenceId(sequence), Epoch(epoch)}; }

SequenceSpec spec(uint64_t sequence, int prompt, int tokens_max, uint32_t epoch = 1) {
  SequenceSpec spec;
  spec.key = key(sequence, epoch);
  spec.tokens.assign(static_cast<size_t>(prompt), 7);
  spec.prompt_tokens = prompt;
  spec.tokens_max = tokens_max;
  return spec;
}

// A scheduler with a pretend engine: token of position p is 1000 + p. Invariants are checked at every step.
class Node {
 public:
  explicit Node(const BatchConfig& config) : batch(config) {}

  BatchActions send(const BatchEvent& event) {
    BatchActions actions = batch.step(TimePoint{++time_}, event);
    batch.check_invariants();
    for (const BatchAction& action : actions)
      if (const auto* run = std::get_if<RunStep>(&action))
        slices.assign(run->slices.begin(), run->slices.end());
    return actions;
  }
  // One whole engine step; what StepDone gave. Slices of the step stay in `slices`.
  BatchActions run_step() {
    slices.clear();
    send(Schedule{});
    return slices.empty() ? BatchActions{} : finish_step();
  }
  BatchActions finish_step() {
    StepDone done;
    for (const Slice& slice : slices)
      if (slice.wants_sample)
        done.results.push_back({slice.key, 1000 + slice.first_position + slice.token_count, false});
    return send(done);
  }

  BatchScheduler batch;
  std::vector<Slice> slices;

 private:
  int64_t time_ = 0;
};

template <typename Action>
std::vector<Action> all(const BatchActions& actions) {
  std::vector<Action> found;
  for (const BatchAction& action : actions)
    if (const auto* a = std::get_if<Action>(&action)) found.push_back(*a);
  return found;
}

BatchConfig config(int pool_blocks = 100) {
  BatchConfig config;
  config.pool_blocks = pool_blocks;
  config.block_tokens = 4;
  config.batch_tokens_max = 16;
  config.sequences_max = 8;
  config.waiting_max = 8;
  return config;
}

TEST(BatchScheduler, PrefillsInChunksThenDecodesToItsLimit) {
  Node node(config());
  EXPECT_TRUE(node.send(Add{SequenceKind::kLocal, spec(1, 20, 3)}).empty());
  EXPECT_TRUE(node.run_step().empty());  // first chunk: 16 of 20
  ASSERT_EQ(node.slices.size(), 1u);
  EXPECT_EQ(node.slices[0].token_count, 16);
  EXPECT_FALSE(node.slices[0].wants_sample);
  const auto first = all<Emit>(node.run_step());
  EXPECT_EQ(node.slices[0].first_position, 16);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].position, 20);
  EXPECT_EQ(first[0].token, 1020);
  EXPECT_EQ(first[0].end, EndReason::kNone);
  EXPECT_EQ(all<Emit>(node.run_step())[0].position, 21);
  const auto last = node.run_step();
  EXPECT_EQ(all<Emit>(last)[0].end, EndReason::kLength);
  EXPECT_EQ(all<Ended>(last)[0].reason, EndReason::kLength);
  EXPECT_EQ(all<Freed>(last).size(), 1u);
  EXPECT_EQ(node.batch.load().blocks_free, 100);
  EXPECT_TRUE(node.run_step().empty());
}

TEST(BatchScheduler, DecodesGoFirstAndPrefillFillsTheBudget) {
  Node node(config());
  node.send(Add{SequenceKind::kLocal, spec(1, 4, 10)});
  node.send(Add{SequenceKind::kLocal, spec(2, 4, 10)});
  node.run_step();
  node.send(Add{SequenceKind::kLocal, spec(3, 30, 10)});
  node.run_step();
  ASSERT_EQ(node.slices.size(), 3u);
  EXPECT_EQ(node.slices[0].token_count, 1);
  EXPECT_EQ(node.slices[1].token_count, 1);
  EXPECT_EQ(node.slices[2].key, key(3));
  EXPECT_EQ(node.slices[2].token_count, 14);
}

TEST(BatchScheduler, OnlyOneStepInFlight) {
  Node node(config());
  node.send(Add{SequenceKind::kLocal, spec(1, 4, 10)});
  EXPECT_EQ(all<RunStep>(node.send(Schedule{})).size(), 1u);
  EXPECT_TRUE(node.send(Schedule{}).empty());
  node.finish_step();
  EXPECT_EQ(all<RunStep>(node.send(Schedule{})).size(), 1u);
}

TEST(BatchScheduler, StopIdsEndUnlessIgnored) {
  for (const bool ignore : {false, true}) {
    Node node(config());
    SequenceSpec s = spec(1, 4, 10);
    s.stop_ids = {5, 1004};
    s.ignore_eos = ignore;
    node.send(Add{SequenceKind::kLocal, s});
    EXPECT_EQ(all<Emit>(node.run_step())[0].end, ignore ? EndReason::kNone : EndReason::kStop);
  }
}

TEST(BatchScheduler, TheContextEndsASequence) {
  BatchConfig c = config();
  c.context_max = 6;
  Node node(c);
  node.send(Add{SequenceKind::kLocal, spec(1, 5, 100)});
  EXPECT_EQ(all<Emit>(node.run_step())[0].end, EndReason::kLength);
  EXPECT_EQ(all<Refused>(node.send(Add{SequenceKind::kLocal, spec(2, 6, 1)}))[0].reason,
            RefuseReason::kTooLong);
}

TEST(BatchScheduler, RefusesWhatCanNeverFitOrIsInvalid) {
  Node node(config(5));  // 20 tokens
  EXPECT_EQ(node.batch.context_max(), 20);
  const auto refused = [&](const SequenceSpec& s) {
    const auto r = all<Refused>(node.send(Add{SequenceKind::kLocal, s}));
    return r.empty() ? -1 : static_cast<int>(r[0].reason);
  };
  EXPECT_EQ(refused(spec(1, 20, 1)), static_cast<int>(RefuseReason::kTooLong));
  EXPECT_EQ(refused(spec(1, 0, 1)), static_cast<int>(RefuseReason::kInvalid));
  EXPECT_EQ(refused(spec(1, 3, 0)), static_cast<int>(RefuseReason::kInvalid));
  EXPECT_EQ(refused(spec(1, 3, 5, 2)), -1);
  EXPECT_EQ(refused(spec(1, 3, 5, 2)), static_cast<int>(RefuseReason::kDuplicate));
  EXPECT_EQ(refused(spec(1, 3, 5, 1)), static_cast<int>(RefuseReason::kStaleEpoch));
  EXPECT_EQ(refused(spec(1, 3, 5, 3)), -1);
}

TEST(BatchScheduler, BoundsTheQueue) {
  Node node(config());
  for (uint64_t i = 1; i <= 8; ++i) EXPECT_TRUE(node.send(Add{SequenceKind::kLocal, spec(i, 4, 4)}).empty());
  EXPECT_EQ(all<Refused>(node.send(Add{SequenceKind::kLocal, spec(9, 4, 4)}))[0].reason,
            RefuseReason::kTooManySequences);
}

TEST(BatchScheduler, PreemptsTheLatestAndRecomputes) {
  Node node(config(6));  // 24 tokens
  node.send(Add{SequenceKind::kLocal, spec(1, 7, 13)});
  node.send(Add{SequenceKind::kLocal, spec(2, 7, 13)});
  std::vector<int> next = {0, 7, 7};
  int preemptions = 0;
  for (int step = 0; step < 200 && (next[1] < 20 || next[2] < 20); ++step) {
    node.slices.clear();
    for (const auto& p : all<Preempted>(node.send(Schedule{}))) {
      EXPECT_EQ(p.key, key(2));  // never the oldest
      EXPECT_TRUE(node.batch.blocks_of(p.key).empty());
      ++preemptions;
    }
    ASSERT_FALSE(node.slices.empty()) << "livelock";
    for (const auto& emit : all<Emit>(node.finish_step())) {
      int& expected = next[emit.key.sequence.value()];
      EXPECT_EQ(emit.position, expected++);  // continues where it was
      EXPECT_EQ(emit.token, 1000 + emit.position);
    }
  }
  EXPECT_GE(preemptions, 1);
  EXPECT_EQ(next[1], 20);
  EXPECT_EQ(next[2], 20);
  EXPECT_EQ(node.batch.load().blocks_free, 6);
}

TEST(BatchScheduler, PrefillLeasesItsBlocksUntilTheHandoffEnds) {
  Node node(config());
  node.send(Add{SequenceKind::kPrefill, spec(1, 20, 10)});
  node.run_step();
  EXPECT_FALSE(node.slices[0].reserve_now);
  const auto done = node.run_step();
  EXPECT_TRUE(node.slices[0].reserve_now);  // with the last chunk at the latest
  EXPECT_EQ(all<Emit>(done)[0].position, 20);
  ASSERT_EQ(all<HandoffReady>(done).size(), 1u);
  EXPECT_EQ(all<HandoffReady>(done)[0].first_token, 1020);
  EXPECT_EQ(node.batch.load().blocks_leased, 5);
  EXPECT_EQ(node.batch.load().running, 0);
  const auto ended = node.send(HandoffEnded{key(1), true});
  EXPECT_EQ(all<Ended>(ended)[0].reason, EndReason::kHandedOff);
  EXPECT_EQ(all<Freed>(ended).size(), 1u);
  EXPECT_EQ(node.batch.load().blocks_free, 100);
}

TEST(BatchScheduler, AnOpenHandoffIsNeverPreempted) {
  Node node(config(5));
  node.send(Add{SequenceKind::kLocal, spec(1, 4, 12)});  // grows to 4 blocks
  node.run_step();
  node.send(Add{SequenceKind::kPrefill, spec(2, 8, 9)});  // 2 blocks, lent to the handoff
  int last = 0;
  const auto run = [&] {
    for (const auto& emit : all<Emit>(node.run_step()))
      if (emit.key == key(1)) last = emit.position;
  };
  for (int i = 0; i < 20; ++i) run();
  EXPECT_EQ(last, 12);  // the oldest stands still, and keeps what it has
  EXPECT_EQ(node.batch.blocks_of(key(1)).size(), 3u);
  EXPECT_EQ(node.batch.load().blocks_leased, 2);
  node.send(HandoffEnded{key(2), true});
  for (int i = 0; i < 10; ++i) run();
  EXPECT_EQ(last, 15);
}

TEST(BatchScheduler, ReserveLeadMovesTheReservationForward) {
  BatchConfig c = config();
  c.reserve_lead_tokens = 24;
  Node node(c);
  node.send(Add{SequenceKind::kPrefill, spec(1, 50, 10)});
  node.run_step();
  EXPECT_FALSE(node.slices[0].reserve_now);  // 50 left
  node.run_step();
  EXPECT_FALSE(node.slices[0].reserve_now);  // 34 left
  node.run_step();
  EXPECT_TRUE(node.slices[0].reserve_now);  // 18 left
  node.run_step();
  EXPECT_FALSE(node.slices[0].reserve_now);  // once
}

TEST(BatchScheduler, AFirstTokenThatEndsStillOwesTheHandoffItsEnd) {
  Node node(config());
  node.send(Add{SequenceKind::kPrefill, spec(1, 8, 1)});
  const auto done = node.run_step();
  EXPECT_TRUE(all<HandoffReady>(done).empty());
  EXPECT_EQ(all<Ended>(done)[0].reason, EndReason::kLength);
  EXPECT_TRUE(all<Ended>(done)[0].handoff_open);
  EXPECT_TRUE(all<Freed>(done).empty());
  EXPECT_EQ(node.batch.load().blocks_quarantined, 2);
  const auto drained = node.send(HandoffEnded{key(1), false});
  EXPECT_TRUE(all<Ended>(drained).empty());
  EXPECT_EQ(all<Freed>(drained).size(), 1u);
}

TEST(BatchScheduler, DecodeJoinsWithTheCommittedToken) {
  Node node(config());
  const auto granted = all<ReserveGranted>(node.send(Reserve{spec(1, 10, 5)}));
  ASSERT_EQ(granted.size(), 1u);
  EXPECT_EQ(granted[0].blocks.size(), 3u);
  EXPECT_EQ(node.batch.load().blocks_leased, 3);
  EXPECT_TRUE(node.run_step().empty());  // nothing to run before COMMIT
  EXPECT_TRUE(node.send(KvCommitted{key(1), 1010}).empty());
  EXPECT_EQ(node.batch.load().blocks_held, 3);
  const auto actions = node.run_step();
  EXPECT_EQ(node.slices[0].first_position, 10);
  EXPECT_EQ(node.slices[0].token_count, 1);
  EXPECT_EQ(all<Emit>(actions)[0].position, 11);
  EXPECT_TRUE(node.send(KvCommitted{key(1), 1010}).empty());  // COMMIT is idempotent
  EXPECT_EQ(node.batch.tokens_of(key(1)).size(), 12u);
}

TEST(BatchScheduler, APreemptedDecodePrefillsLocally) {
  Node node(config(5));
  node.send(Reserve{spec(1, 8, 6)});  // grows to 4 blocks
  node.send(KvCommitted{key(1), 1008});
  node.send(Reserve{spec(2, 4, 6)});  // grows to 3
  node.send(KvCommitted{key(2), 1004});
  std::map<uint64_t, int> last;
  bool recomputed = false;
  for (int i = 0; i < 60; ++i) {
    for (const auto& emit : all<Emit>(node.run_step())) last[emit.key.sequence.value()] = emit.position;
    for (const Slice& slice : node.slices) recomputed |= slice.key == key(2) && slice.first_position == 0;
  }
  EXPECT_TRUE(recomputed);
  EXPECT_EQ(last[1], 13);
  EXPECT_EQ(last[2], 9);
  EXPECT_EQ(node.batch.load().blocks_free, 5);
}

TEST(BatchScheduler, AnAbortedReservationIsQuarantinedUntilTheWriterIsDone) {
  for (const bool committed : {false, true}) {
    Node node(config(10));
    node.send(Reserve{spec(1, 16, 5)});
    const auto ended = all<Ended>(node.send(Abort{key(1)}));
    ASSERT_EQ(ended.size(), 1u);
    EXPECT_TRUE(ended[0].handoff_open);
    EXPECT_EQ(node.batch.load().blocks_quarantined, 4);
    EXPECT_TRUE(node.send(Abort{key(1)}).empty());
    // The blocks are nobody's: a reservation of 7 does not fit.
    EXPECT_EQ(all<Refused>(node.send(Reserve{spec(2, 28, 5)}))[0].reason, RefuseReason::kNoBlocks);
    EXPECT_EQ(all<Refused>(node.send(Reserve{spec(1, 4, 5)}))[0].reason, RefuseReason::kDuplicate);
    // A late COMMIT proves as much as DRAINED does.
    const auto freed = committed ? node.send(KvCommitted{key(1), 3}) : node.send(HandoffEnded{key(1), false});
    EXPECT_EQ(all<Freed>(freed).size(), 1u);
    EXPECT_TRUE(all<Ended>(freed).empty());
    EXPECT_EQ(node.batch.load().blocks_free, 10);
  }
}

TEST(BatchScheduler, AbortDuringAStepWaitsForIt) {
  Node node(config());
  node.send(Add{SequenceKind::kLocal, spec(1, 4, 10)});
  node.send(Schedule{});
  EXPECT_TRUE(node.send(Abort{key(1)}).empty());
  EXPECT_EQ(node.batch.blocks_of(key(1)).size(), 1u);
  const auto done = node.finish_step();
  EXPECT_TRUE(all<Emit>(done).empty());
  EXPECT_EQ(all<Ended>(done)[0].reason, EndReason::kAborted);
  EXPECT_EQ(all<Freed>(done).size(), 1u);
}

TEST(BatchScheduler, AHandoffThatFailsDuringTheLastChunkEndsTheSequence) {
  Node node(config());
  node.send(Add{SequenceKind::kPrefill, spec(1, 4, 10)});
  node.send(Schedule{});
  EXPECT_TRUE(node.send(HandoffEnded{key(1), false}).empty());
  const auto done = node.finish_step();
  EXPECT_EQ(all<Ended>(done)[0].reason, EndReason::kHandoffFailed);
  EXPECT_FALSE(all<Ended>(done)[0].handoff_open);
  EXPECT_EQ(node.batch.load().blocks_free, 100);
}

TEST(BatchScheduler, AFailedSampleEndsOnlyItsSequence) {
  Node node(config());
  node.send(Add{SequenceKind::kLocal, spec(1, 4, 10)});
  node.send(Add{SequenceKind::kLocal, spec(2, 4, 10)});
  node.send(Schedule{});
  const auto done = node.send(StepDone{{{key(1), 0, true}, {key(2), 1004, false}}});
  EXPECT_EQ(all<Ended>(done)[0].reason, EndReason::kFailed);
  EXPECT_EQ(all<Emit>(done)[0].key, key(2));
  EXPECT_EQ(all<Emit>(done)[0].result_index, 1);
}

TEST(BatchScheduler, ReservationsDoNotStarveWhoWaits) {
  Node node(config(10));
  node.send(Add{SequenceKind::kLocal, spec(1, 20, 4)});  // 5 blocks, running
  node.run_step();
  node.send(Add{SequenceKind::kLocal, spec(2, 20, 4)});  // 5 blocks: waits for headroom
  EXPECT_EQ(all<Refused>(node.send(Reserve{spec(3, 4, 4)}))[0].reason, RefuseReason::kNoBlocks);
}

TEST(BatchScheduler, UnknownKeysAreIgnored) {
  Node node(config());
  EXPECT_TRUE(node.send(Abort{key(9)}).empty());
  EXPECT_TRUE(node.send(HandoffEnded{key(9), true}).empty());
  EXPECT_TRUE(node.send(KvCommitted{key(9), 1}).empty());
  EXPECT_TRUE(node.batch.blocks_of(key(9)).empty());
}

// Random work in a pool far too small: everything ends, every stream is whole, every block comes back.
TEST(BatchScheduler, RandomWorkAlwaysEnds) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    BatchConfig c = config(static_cast<int>(rng.between(8, 24)));
    c.reserve_lead_tokens = static_cast<int32_t>(rng.below(20));
    Node node(c);
    std::map<uint64_t, int> next;       // expected position
    std::vector<SequenceKey> handoffs;  // owed HandoffEnded or KvCommitted
    std::vector<SequenceKey> reserved;
    size_t ended = 0, accepted = 0;
    const auto absorb = [&](const BatchActions& actions) {
      for (const auto& emit : all<Emit>(actions)) ASSERT_EQ(emit.position, next[emit.key.sequence.value()]++);
      for (const auto& ready : all<HandoffReady>(actions)) handoffs.push_back(ready.key);
      for (const auto& end : all<Ended>(actions)) {
        ++ended;
        if (end.handoff_open) handoffs.push_back(end.key);
      }
    };
    uint64_t id = 0;
    for (int i = 0; i < 3000 && (i < 600 || ended < accepted); ++i) {
      const auto what = rng.below(12);
      if (i < 500 && what < 3) {
        const int prompt = static_cast<int>(rng.between(1, 25));
        const SequenceSpec s = spec(++id, prompt, static_cast<int>(rng.between(1, 20)));
        next[id] = prompt + (what == 2 ? 1 : 0);
        const auto actions =
            what == 2 ? node.send(Reserve{s})
                      : node.send(Add{what == 0 ? SequenceKind::kLocal : SequenceKind::kPrefill, s});
        if (all<Refused>(actions).empty()) ++accepted;
        if (!all<ReserveGranted>(actions).empty()) reserved.push_back(s.key);
      } else if (what == 3 && !reserved.empty()) {
        const auto k = reserved.back();
        reserved.pop_back();
        absorb(node.send(KvCommitted{k, 5}));
      } else if (what == 4 && !handoffs.empty()) {
        const auto k = handoffs.back();
        handoffs.pop_back();
        absorb(node.send(HandoffEnded{k, rng.below(2) == 0}));
      } else if (what == 5 && id > 0 && i < 500) {
        absorb(node.send(Abort{key(1 + rng.below(id))}));
      } else {
        if (what == 6 && id > 0 && i < 500) {  // abort in the middle of a step
          node.slices.clear();
          absorb(node.send(Schedule{}));
          absorb(node.send(Abort{key(1 + rng.below(id))}));
          if (!node.slices.empty()) absorb(node.finish_step());
        } else {
          absorb(node.run_step());
        }
      }
    }
    for (const auto& k : reserved) absorb(node.send(HandoffEnded{k, false}));
    for (const auto& k : std::vector(handoffs)) absorb(node.send(HandoffEnded{k, false}));
    EXPECT_EQ(ended, accepted);
    EXPECT_EQ(node.batch.load().blocks_free, c.pool_blocks);
  }
}

}  // namespace
}  // namespace penstock::scheduler
