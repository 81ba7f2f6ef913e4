#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/engine/fake_runner.h"
#include "tests/engine/recording_listener.h"

namespace penstock {
namespace {

using scheduler::BatchConfig;
using scheduler::SequenceKind;

SequenceKey key_of(uint64_t id, uint32_t epoch = 1) { return {SequenceId(id), Epoch(epoch)}; }

std::vector<TokenId> prompt_of(uint64_t seed, int length) {
  Rng rng(seed);
  std::vector<TokenId> ids(static_cast<size_t>(length));
  for (TokenId& id : ids) id = static_cast<TokenId>(rng.below(FakeRunner::kVocab));
  return ids;
}

SubmitSequence greedy(uint64_t id, std::vector<TokenId> ids, int tokens_max,
                      SequenceKind kind = SequenceKind::kLocal) {
  SubmitSequence submit;
  submit.kind = kind;
  submit.spec.key = key_of(id);
  submit.spec.prompt_tokens = static_cast<int32_t>(ids.size());
  submit.spec.tokens = std::move(ids);
  submit.spec.tokens_max = tokens_max;
  submit.params.sampling.temperature = 0;
  return submit;
}

struct Fixture {
  explicit Fixture(int pool_blocks, int batch_tokens_max = 64, int sequences_max = 8)
      : runner(pool_blocks, 16),
        engine(config(pool_blocks, batch_tokens_max, sequences_max), runner, clock, listener) {}
  static BatchConfig config(int pool_blocks, int batch_tokens_max, int sequences_max) {
    BatchConfig c;
    c.pool_blocks = pool_blocks;
    c.block_tokens = 16;
    c.batch_tokens_max = batch_tokens_max;
    c.sequences_max = sequences_max;
    return c;
  }
  void run() {
    for (int i = 0; i < 10000 && engine.run_step(); ++i) engine.batch().check_invariants();
  }
  void expect_empty(int pool_blocks) const { EXPECT_EQ(engine.load().blocks_free, pool_blocks); }

  ManualClock clock;
  FakeRunner runner;
  RecordingListener listener;
  Engine engine;
};

TEST(Engine, GeneratesWhatTheModelSays) {
  Fixture f(8);
  const auto prompt = prompt_of(1, 20);
  f.engine.handle(greedy(1, prompt, 12));
  f.run();
  EXPECT_EQ(f.listener.ids_of(key_of(1)), FakeRunner::continuation(prompt, 12));
  EXPECT_EQ(f.listener.tokens[key_of(1)].front().position, 20);
  EXPECT_EQ(f.listener.tokens[key_of(1)].back().end, EndReason::kLength);
  EXPECT_EQ(f.listener.freed.size(), 1u);
  f.expect_empty(8);
}

// Alone, in company, in chunks, and preempted when blocks run out: the same tokens.
TEST(Engine, CompanyChunksAndPreemptionChangeNothing) {
  uint64_t preemptions = 0;
  for (const int batch_tokens_max : {8, 9, 64}) {
    for (const int pool_blocks : {6, 9, 40}) {
      Fixture f(pool_blocks, batch_tokens_max);
      for (uint64_t id = 1; id <= 7; ++id) {
        f.engine.handle(greedy(id, prompt_of(id, 5 + static_cast<int>(id) * 7), 20));
      }
      f.run();
      for (uint64_t id = 1; id <= 7; ++id) {
        EXPECT_EQ(f.listener.ids_of(key_of(id)),
                  FakeRunner::continuation(prompt_of(id, 5 + static_cast<int>(id) * 7), 20))
            << "sequence " << id << ", pool " << pool_blocks << ", budget " << batch_tokens_max;
      }
      preemptions += f.engine.speeds().preemptions;
      f.expect_empty(pool_blocks);
    }
  }
  EXPECT_GT(preemptions, 0u) << "the small pools were meant to run out";
}

TEST(Engine, StopIdEndsTheSequenceUnlessIgnored) {
  const auto prompt = prompt_of(3, 10);
  const auto all = FakeRunner::continuation(prompt, 10);
  for (const bool ignore : {false, true}) {
    Fixture f(8);
    SubmitSequence submit = greedy(1, prompt, 10);
    submit.spec.stop_ids = {all[4]};
    submit.spec.ignore_eos = ignore;
    f.engine.handle(submit);
    f.run();
    const auto& told = f.listener.tokens[key_of(1)];
    const size_t first_stop = static_cast<size_t>(std::find(all.begin(), all.end(), all[4]) - all.begin());
    EXPECT_EQ(told.size(), ignore ? 10u : first_stop + 1);
    EXPECT_EQ(told.back().end, ignore ? EndReason::kLength : EndReason::kStop);
  }
}

TEST(Engine, SeededSamplingIsTheSameAloneAndInCompany) {
  const auto run_with = [](int others) {
    Fixture f(40);
    SubmitSequence seeded = greedy(1, prompt_of(5, 9), 16);
    seeded.params.sampling = {};
    seeded.params.sampling.temperature = 2;  // the fake's logits are peaked: heat them up
    seeded.params.sampling.seed = 42;
    for (int i = 0; i < others; ++i)
      f.engine.handle(greedy(10 + static_cast<uint64_t>(i), prompt_of(6, 30), 16));
    f.engine.handle(seeded);
    f.run();
    return f.listener.ids_of(key_of(1));
  };
  const auto alone = run_with(0);
  EXPECT_EQ(alone, run_with(5));
  EXPECT_NE(alone, FakeRunner::continuation(prompt_of(5, 9), 16)) << "temperature had no effect";
}

// A replay is given prompt and tokens so far; what follows is what would have followed.
TEST(Engine, ReplayContinuesAsItWouldHave) {
  Fixture f(40);
  SubmitSequence whole = greedy(1, prompt_of(7, 9), 16);
  whole.params.sampling = {};
  whole.params.sampling.temperature = 2;
  whole.params.sampling.seed = 9;
  f.engine.handle(whole);
  f.run();
  const auto all = f.listener.ids_of(key_of(1));

  SubmitSequence replay = whole;
  replay.spec.key = key_of(1, 2);
  replay.spec.tokens.insert(replay.spec.tokens.end(), all.begin(), all.begin() + 6);
  f.engine.handle(replay);
  f.run();
  EXPECT_EQ(f.listener.ids_of(key_of(1, 2)), std::vector<TokenId>(all.begin() + 6, all.end()));
}

TEST(Engine, LogprobsComeOnlyWhenAsked) {
  Fixture f(8);
  SubmitSequence asked = greedy(1, prompt_of(1, 4), 2);
  asked.params.logprobs = true;
  asked.params.top_logprobs = 3;
  f.engine.handle(asked);
  f.engine.handle(greedy(2, prompt_of(1, 4), 2));
  f.run();
  const EmittedToken& told = f.listener.tokens[key_of(1)].front();
  ASSERT_EQ(told.top.size(), 3u);
  EXPECT_EQ(told.top[0].token, told.token);
  // One logit of 5 among 63 of 0: log(e^5 / (e^5 + 63)).
  EXPECT_NEAR(told.logprob, 5 - std::log(std::exp(5.0) + 63), 1e-5);
  EXPECT_TRUE(f.listener.tokens[key_of(2)].front().top.empty());
}

TEST(Engine, AbortFreesAtOnce) {
  Fixture f(8);
  f.engine.handle(greedy(1, prompt_of(1, 20), 50));
  f.engine.run_step();
  f.engine.handle(scheduler::Abort{key_of(1)});
  EXPECT_EQ(f.listener.ended[key_of(1)], EndReason::kAborted);
  EXPECT_FALSE(f.engine.run_step());
  f.expect_empty(8);
}

TEST(Engine, WhatCanNeverFitIsRefusedWithTheCounts) {
  Fixture f(4);
  f.engine.handle(greedy(1, prompt_of(1, 100), 5));
  EXPECT_EQ(f.listener.refused[key_of(1)], scheduler::RefuseReason::kTooLong);
  EXPECT_NE(f.listener.refusal_message.find("KV blocks"), std::string::npos);
}

// A forward pass that fails ends every sequence in it, those in the middle of their prompt too.
TEST(Engine, FailedForwardPassFailsItsSequences) {
  Fixture f(16, 32);
  f.engine.handle(greedy(1, prompt_of(1, 8), 5));
  f.engine.handle(greedy(2, prompt_of(2, 60), 5));  // only its first chunk fits the step
  f.runner.fail_next = "device lost";
  f.run();
  EXPECT_EQ(f.listener.ended[key_of(1)], EndReason::kFailed);
  EXPECT_EQ(f.listener.ended[key_of(2)], EndReason::kFailed);
  EXPECT_EQ(f.listener.end_message, "device lost");
  f.expect_empty(16);
}

// The whole way of a split request, KV carried by hand: P computes, D goes on.
TEST(Engine, SplitEqualsColocated) {
  const auto prompt = prompt_of(11, 50);
  const auto expected = FakeRunner::continuation(prompt, 12);
  Fixture p(8, 24), d(8);
  p.engine.handle(greedy(1, prompt, 12, SequenceKind::kPrefill));
  p.run();
  ASSERT_TRUE(p.listener.ready.contains(key_of(1)));
  EXPECT_EQ(p.listener.ready[key_of(1)].first, 50);
  EXPECT_EQ(p.listener.ids_of(key_of(1)), std::vector<TokenId>{expected[0]});
  EXPECT_EQ(p.listener.layers[key_of(1)].back(), (std::pair<int32_t, int32_t>{1, 50}));

  const SubmitSequence spec = greedy(1, prompt, 12);
  d.engine.handle(ReserveSequence{spec.spec, spec.params});
  const auto& from = p.listener.reserved[key_of(1)];
  const auto& to = d.listener.granted[key_of(1)];
  ASSERT_EQ(from.size(), 4u);
  ASSERT_EQ(to.size(), 4u);
  for (size_t b = 0; b < to.size(); ++b) {
    for (int64_t i = 0; i < 16; ++i) d.runner.at(to[b], i) = p.runner.at(from[b], i);
  }
  d.engine.handle(scheduler::KvCommitted{key_of(1), expected[0]});
  d.run();
  EXPECT_EQ(d.listener.ids_of(key_of(1)), std::vector<TokenId>(expected.begin() + 1, expected.end()));
  EXPECT_EQ(d.listener.tokens[key_of(1)].front().position, 51);

  EXPECT_LT(p.engine.load().blocks_free, 8) << "source blocks are leased until the handoff has ended";
  p.engine.handle(scheduler::HandoffEnded{key_of(1), true});
  EXPECT_EQ(p.listener.ended[key_of(1)], EndReason::kHandedOff);
  p.expect_empty(8);
  d.expect_empty(8);
}

// An aborted reservation stays out of the pool until its writer is known to be done.
TEST(Engine, AbortedReservationIsQuarantined) {
  Fixture d(8);
  const SubmitSequence spec = greedy(1, prompt_of(1, 50), 12);
  d.engine.handle(ReserveSequence{spec.spec, spec.params});
  d.engine.handle(scheduler::Abort{key_of(1)});
  EXPECT_TRUE(d.listener.open_at_end[key_of(1)]);
  EXPECT_EQ(d.engine.load().blocks_quarantined, 4);
  d.engine.handle(scheduler::HandoffEnded{key_of(1), false});
  d.expect_empty(8);
}

}  // namespace
}  // namespace penstock
