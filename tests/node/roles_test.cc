// The prefill and the decode role together: a request from P over the handoff to D, and every way it can end.
#include <gtest/gtest.h>

#include "tests/node/role_pair.h"

namespace penstock {
namespace {

// ---- The path ---------------------------------------------------------------------------------------------

TEST(Roles, ARequestGoesFromPrefillOverHandoffToDecode) {
  Pair pair;
  RoutedSequence& sequence = pair.world.request(1, prompt_of(1, 50));
  pair.world.start_split(sequence, pair.p, pair.d);
  pair.world.settle();
  EXPECT_EQ(sequence.ids(), PoolRunner::continuation(sequence.prompt, 12));
  EXPECT_EQ(sequence.end, EndReason::kLength);
  EXPECT_EQ(sequence.done, 1);
  EXPECT_EQ(sequence.bytes, static_cast<uint64_t>(4 * PoolRunner::layout().block_bytes_all()));
  EXPECT_FALSE(sequence.lost());
  EXPECT_EQ(sequence.aborted, 0);
  EXPECT_EQ(pair.p.engine->speeds().generated_tokens, 1u) << "P samples the first token and no other";
  EXPECT_EQ(pair.d.engine->speeds().prompt_tokens, 0u) << "D computes nothing of the prompt";
  EXPECT_EQ(pair.p.told.blocks_free, 16) << "the last report shows the pool at rest";
  pair.expect_rest();
}

// Prompts that end within a block, at its end, after it, and in one token; greedy and drawn.
TEST(Roles, SplitEqualsColocated) {
  Pair pair;
  uint64_t id = 0;
  for (const int length : {1, 15, 16, 17, 48, 100}) {
    for (const float temperature : {0.0F, 2.0F}) {
      const std::vector<TokenId> prompt = prompt_of(++id, length);
      RoutedSequence* runs[2] = {&pair.world.request(2 * id, prompt),
                                 &pair.world.request(2 * id + 1, prompt)};
      for (RoutedSequence* run : runs) {
        run->start.sampling->temperature = temperature;
        run->start.sampling->seed = id;
        run->start.sampling->choice = 3;
      }
      pair.world.start_split(*runs[0], pair.p, pair.d);
      pair.world.settle();
      pair.world.start_colocated(*runs[1], pair.d);
      pair.world.settle();
      EXPECT_EQ(runs[0]->ids(), runs[1]->ids()) << length << " tokens, temperature " << temperature;
      EXPECT_EQ(runs[0]->ids().size(), 12u);
      const bool greedy = runs[0]->ids() == PoolRunner::continuation(prompt, 12);
      EXPECT_EQ(greedy, temperature == 0) << "the heat was meant to change the draw";
      pair.expect_rest();
    }
  }
}

TEST(Roles, AFirstTokenThatEndsTheSequenceNeedsNoHandoff) {
  Pair pair;
  RoutedSequence& by_length = pair.world.request(1, prompt_of(1, 50));
  by_length.start.tokens_max = 1;
  RoutedSequence& by_stop = pair.world.request(2, prompt_of(2, 50));
  by_stop.start.stop_ids = {PoolRunner::next_token(by_stop.prompt)};
  for (RoutedSequence* sequence : {&by_length, &by_stop}) {
    pair.world.start_split(*sequence, pair.p, pair.d);
    pair.world.settle();
    EXPECT_EQ(sequence->ids().size(), 1u);
    EXPECT_EQ(sequence->done, 0);
    EXPECT_FALSE(sequence->lost());
    EXPECT_EQ(pair.d.engine->speeds().steps, 0u);
    pair.expect_rest();
  }
  EXPECT_EQ(by_length.end, EndReason::kLength);
  EXPECT_EQ(by_stop.end, EndReason::kStop);
}

// Many at once, over several interleavings, with pools too small for all of them: refusals and preemptions, a
// router that tries again, and the tokens of a machine with room.
TEST(Roles, ManyAtOnceInSmallPools) {
  int refusals = 0;
  uint64_t preemptions = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    Pair pair(seeded(seed), 20, 14);
    for (uint64_t id = 1; id <= 8; ++id) {
      RoutedSequence& sequence =
          pair.world.request(id, prompt_of(seed * 100 + id, 5 + static_cast<int>(id) * 9));
      sequence.start.tokens_max = 40;
      pair.world.start_split(sequence, pair.p, pair.d);
    }
    for (int round = 0; round < 20; ++round) {
      pair.world.settle();
      for (auto& [id, sequence] : pair.world.sequences) {
        if (!sequence.lost()) continue;
        refusals += sequence.refused;
        EXPECT_EQ(sequence.failed, 0) << sequence.message;
        pair.world.next_attempt(sequence);
        pair.world.start_split(sequence, pair.p, pair.d);
      }
    }
    for (const auto& [id, sequence] : pair.world.sequences)
      EXPECT_EQ(sequence.ids(), PoolRunner::continuation(sequence.prompt, 40))
          << "seed " << seed << ", " << id;
    preemptions += pair.d.engine->speeds().preemptions;
    pair.expect_rest();
  }
  EXPECT_GT(refusals, 0);
  EXPECT_GT(preemptions, 0u);
}

// ---- Refusals ---------------------------------------------------------------------------------------------

TEST(Roles, AFullDecodeNodeRefusesAndALaterAttemptGoesOn) {
  Pair pair({}, 16, 8);
  RoutedSequence& big = pair.world.request(1, prompt_of(1, 100));  // seven of D's eight blocks
  pair.world.start_colocated(big, pair.d);
  while (pair.d.engine->load().running == 0) pair.world.turn();
  RoutedSequence& sequence = pair.world.request(2, prompt_of(2, 50));
  pair.world.start_split(sequence, pair.p, pair.d);
  pair.d.engine_paused = true;
  pair.world.settle();  // RESERVE waits at D's engine
  pair.d.engine_paused = false;
  while (pair.d.engine->load().running > 0) pair.world.turn();
  pair.world.settle();
  ASSERT_EQ(sequence.refused, 1) << "the big one was meant to be in the way";
  EXPECT_NE(sequence.message.find("needs 4 KV blocks"), std::string::npos) << sequence.message;
  EXPECT_EQ(sequence.failed, 0);
  EXPECT_EQ(sequence.done, 0);
  EXPECT_EQ(big.ids(), PoolRunner::continuation(big.prompt, 12)) << "who was there first is not disturbed";
  pair.expect_rest();

  pair.world.next_attempt(sequence);
  EXPECT_EQ(sequence.start.ids.size(), 51u) << "P's first token was delivered although D refused";
  pair.world.start_split(sequence, pair.p, pair.d);
  pair.world.settle();
  EXPECT_EQ(sequence.ids(), PoolRunner::continuation(sequence.prompt, 12));
  pair.expect_rest();
}

// The bound of P's own table is an answer like D's: try again, or elsewhere.
TEST(Roles, TooManyHandoffsToOneDecodeNodeAreARefusal) {
  RoleWorldOptions options;
  options.handoff.transfers_per_peer_max = 1;
  options.batch_tokens_max = 128;
  Pair pair(options);
  RoutedSequence& first = pair.world.request(1, prompt_of(1, 40));
  RoutedSequence& second = pair.world.request(2, prompt_of(2, 40));
  pair.world.start_split(first, pair.p, pair.d);
  pair.world.start_split(second, pair.p, pair.d);
  pair.world.settle();
  EXPECT_EQ(first.ids().size(), 12u);
  EXPECT_EQ(second.refused, 1) << second.message;
  EXPECT_EQ(second.failed, 0) << second.message;
  pair.expect_rest();
}

TEST(Roles, ADecodeNodeThatIsNotConnectedFailsTheSequenceForNow) {
  Pair pair;
  RoleNode& stranger = pair.world.add(kDecode);
  RoutedSequence& sequence = pair.world.request(1, prompt_of(1, 40));
  pair.world.start_split(sequence, pair.p, stranger);
  pair.world.settle();
  EXPECT_EQ(sequence.failed, 1);
  EXPECT_EQ(sequence.code, wire::ErrorCode::Unavailable);
  EXPECT_NE(sequence.message.find(stranger.identity), std::string::npos) << sequence.message;
  pair.expect_rest();
  pair.expect_works(2);
}

// A Start that was overtaken by the next attempt leaves nothing behind.
TEST(Roles, AnAttemptThatCameLateIsDropped) {
  Pair pair;
  for (RoleNode* node : {&pair.p, &pair.d}) {
    RoutedSequence& sequence = pair.world.request(node == &pair.p ? 1 : 2, prompt_of(1, 40));
    sequence.start.epoch = 2;
    for (const uint32_t epoch : {2u, 1u, 2u}) {
      sequence.start.epoch = epoch;
      node == &pair.p ? pair.world.start_split(sequence, pair.p, pair.d)
                      : pair.world.start_colocated(sequence, pair.d);
    }
    pair.world.settle();
    EXPECT_EQ(sequence.ids(), PoolRunner::continuation(sequence.prompt, 12));
    EXPECT_FALSE(sequence.lost());
    pair.expect_rest();
  }
}

// P has bytes at D and its last chunk before it when D alone is told to stop: it hears of it and computes no
// further.
TEST(Roles, AnAbortAtDecodeEndsThePrefillToo) {
  Pair pair;
  RoutedSequence& sequence = pair.world.request(1, prompt_of(1, 60));
  pair.world.start_split(sequence, pair.p, pair.d);
  while (pair.p.engine->speeds().steps < 2) pair.world.turn();
  pair.p.engine_paused = true;
  pair.world.settle();
  ASSERT_EQ(pair.d.engine->load().blocks_leased, 4);
  pair.world.abort(sequence, pair.d);
  pair.world.settle();
  EXPECT_TRUE(pair.d.at_rest()) << "P's transfer side answers while its engine computes";
  pair.p.engine_paused = false;
  pair.world.settle();
  EXPECT_EQ(pair.p.engine->speeds().steps, 2u);
  EXPECT_TRUE(sequence.ids().empty());
  pair.expect_rest();
}

// ---- Failures ---------------------------------------------------------------------------------------------

TEST(Roles, AFailedForwardPassOnEitherSideIsReportedAndFreesBoth) {
  for (const bool on_prefill : {true, false}) {
    Pair pair;
    RoutedSequence& sequence = pair.world.request(1, prompt_of(1, 60));
    pair.world.start_split(sequence, pair.p, pair.d);
    // Before P's last chunk, with the handoff open and bytes at D; or in the middle of D's decoding.
    while (on_prefill ? pair.p.engine->speeds().steps < 2 : sequence.ids().size() < 5) pair.world.turn();
    pair.p.engine_paused = on_prefill;
    if (on_prefill) pair.world.settle();
    ASSERT_EQ(pair.d.engine->load().blocks_leased, on_prefill ? 4 : 0);
    pair.p.engine_paused = false;
    (on_prefill ? pair.p : pair.d).runner->fail_next = "device lost";
    pair.world.settle();
    EXPECT_EQ(sequence.failed, 1);
    EXPECT_EQ(sequence.code, wire::ErrorCode::Internal);
    EXPECT_EQ(sequence.message, "device lost");
    EXPECT_EQ(sequence.end, EndReason::kNone);
    pair.expect_rest();
    pair.expect_works(2);
  }
}

TEST(Roles, BytesThatChangeOnTheWayFailTheHandoffAndAReplayIsRight) {
  RoleWorldOptions options;
  options.network.flip_byte = 1;
  RoleWorld world(options);
  RoleNode& p = world.add(kPrefill);
  RoleNode& d = world.add(kDecode);
  world.connect(p, d);
  RoutedSequence& sequence = world.request(1, prompt_of(1, 40));
  world.start_split(sequence, p, d);
  world.settle();
  EXPECT_EQ(sequence.failed, 1);
  EXPECT_EQ(sequence.code, wire::ErrorCode::Corrupt);
  EXPECT_NE(sequence.message.find("corrupt"), std::string::npos) << sequence.message;
  EXPECT_TRUE(p.at_rest());
  EXPECT_TRUE(d.at_rest());
  world.next_attempt(sequence);
  world.start_colocated(sequence, d);
  world.settle();
  EXPECT_EQ(sequence.ids(), PoolRunner::continuation(sequence.prompt, 12));
}

// P stops in the middle of its writes. Over shared memory D may give those blocks to nobody, however long it
// takes; over a network D's endpoint is gone and so is the danger.
class StoppedPrefill : public testing::TestWithParam<bool> {};

TEST_P(StoppedPrefill, CostsItsBlocksUntilItCannotWrite) {
  const bool network_lanes = GetParam();
  RoleWorldOptions options;
  options.network.network_lanes = network_lanes;
  Pair pair(options);
  RoleNode& other = pair.world.add(kPrefill);
  pair.world.connect(other, pair.d);
  RoutedSequence& sequence = pair.world.request(1, prompt_of(1, 60));
  pair.world.start_split(sequence, pair.p, pair.d);
  while (pair.d.engine->load().blocks_leased == 0 || pair.world.in_flight() < 4) pair.world.turn();
  pair.world.stop(pair.p);
  pair.world.pass(Duration::from_ms(60'000));
  EXPECT_EQ(pair.d.engine->load().blocks_quarantined, network_lanes ? 0 : 4);
  ASSERT_FALSE(pair.d.broken.empty());
  EXPECT_EQ(pair.d.broken[0].reason, "no heartbeat");

  pair.world.next_attempt(sequence);
  pair.world.start_split(sequence, other, pair.d);
  pair.world.settle();
  EXPECT_EQ(sequence.ids(), PoolRunner::continuation(sequence.prompt, 12));

  // What it had posted lands while others own the rest of the pool.
  for (uint64_t id = 2; id <= 4; ++id)
    pair.world.start_split(pair.world.request(id, prompt_of(id, 50)), other, pair.d);
  pair.world.resume(pair.p);
  pair.world.pass(Duration::from_ms(10'000));
  for (uint64_t id = 2; id <= 4; ++id) {
    const RoutedSequence& late = pair.world.sequences.at(id);
    EXPECT_EQ(late.ids(), PoolRunner::continuation(late.prompt, 12)) << id;
  }
  pair.expect_rest();
}

INSTANTIATE_TEST_SUITE_P(Roles, StoppedPrefill, testing::Bool(),
                         [](const auto& test) { return test.param ? "Network" : "SharedMemory"; });

}  // namespace
}  // namespace penstock
