// The roles struck at every turn of a request: aborted, or dead.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/node/role_pair.h"

namespace penstock {
namespace {

// Every turn of a request in its turn, each in another interleaving, until several runs were over before
// theirs.
class Sweep {
 public:
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  static constexpr int kStride = 5;  // a sanitizer makes the run slower, not the faults other ones
#else
  static constexpr int kStride = 1;
#endif
  bool more() const { return misses_ < 4 && !testing::Test::HasFailure(); }
  int strike() const { return strike_; }
  RoleWorldOptions options() const { return seeded(static_cast<uint64_t>(strike_)); }
  void ran(bool struck) {
    misses_ = struck ? 0 : misses_ + 1;
    strike_ += kStride;
  }

 private:
  int strike_ = 1, misses_ = 0;
};

// Runs one request with `at` called before its turn `strike`; false when it ended before that.
bool run_with(Pair& pair, int strike, const std::function<void(RoutedSequence&)>& at) {
  RoutedSequence& sequence = pair.world.request(1, prompt_of(1, 60));
  const int begin = pair.world.turns;
  bool struck = false;
  pair.world.on_turn = [&](int turn) {
    if (turn - begin != strike) return;
    struck = !pair.d.at_rest() || !pair.p.at_rest() || sequence.heard.empty();
    at(sequence);
  };
  pair.world.start_split(sequence, pair.p, pair.d);
  pair.world.settle();
  pair.world.on_turn = nullptr;
  return struck;
}

class AbortAtEveryTurn : public testing::TestWithParam<const char*> {};

TEST_P(AbortAtEveryTurn, ReturnsAllBlocksAndDisturbsNobody) {
  const std::string whom = GetParam();
  int aborted_early = 0;
  for (Sweep sweep; sweep.more();) {
    Pair pair(sweep.options());
    const bool struck = run_with(pair, sweep.strike(), [&](RoutedSequence& sequence) {
      if (whom != "decode") pair.world.abort(sequence, pair.p);
      if (whom != "prefill") pair.world.abort(sequence, pair.d);
    });
    const RoutedSequence& sequence = pair.world.sequences.at(1);
    const std::vector<TokenId> whole = PoolRunner::continuation(sequence.prompt, 12);
    const std::vector<TokenId> told = sequence.ids();
    EXPECT_TRUE(std::equal(told.begin(), told.end(), whole.begin())) << "strike " << sweep.strike();
    EXPECT_EQ(sequence.failed + sequence.refused, 0) << "an abort is no failure: " << sequence.message;
    aborted_early += told.size() < 12 ? 1 : 0;
    pair.expect_rest();
    if (sweep.strike() % 16 == 1) pair.expect_works(9);
    sweep.ran(struck);
  }
  EXPECT_GT(aborted_early, 20 / Sweep::kStride) << "the sweep was meant to strike in the middle";
}

INSTANTIATE_TEST_SUITE_P(RoleSweeps, AbortAtEveryTurn, testing::Values("prefill", "decode", "both"),
                         [](const auto& test) { return std::string(test.param); });

// The router is lost: both nodes drop everything, on whichever side of the handoff it stands.
TEST(RoleSweeps, AbortAllAtEveryTurnEmptiesTheNode) {
  for (const bool prefill_side : {true, false}) {
    for (Sweep sweep; sweep.more();) {
      Pair pair(sweep.options());
      const bool struck = run_with(pair, sweep.strike(), [&](RoutedSequence&) {
        (prefill_side ? pair.p : pair.d).ports.engine.post(AbortAll{});
      });
      pair.expect_rest();
      sweep.ran(struck);
    }
  }
}

TEST(RoleSweeps, PrefillDiesAtEveryTurnAndAnotherOneGoesOn) {
  int replays = 0;
  for (Sweep sweep; sweep.more();) {
    Pair pair(sweep.options());
    const bool struck = run_with(pair, sweep.strike(), [&](RoutedSequence&) { pair.world.kill(pair.p); });
    EXPECT_TRUE(pair.d.at_rest()) << "strike " << sweep.strike();
    ASSERT_EQ(pair.d.broken.size(), 1u);
    EXPECT_EQ(pair.d.broken[0].identity, pair.p.identity);
    RoutedSequence& sequence = pair.world.sequences.at(1);
    if (sequence.ids().size() < 12) {
      ++replays;
      RoleNode& other = pair.world.add(kPrefill);
      pair.world.connect(other, pair.d);
      pair.world.next_attempt(sequence);
      pair.world.start_split(sequence, other, pair.d);
      pair.world.settle();
      EXPECT_TRUE(other.at_rest());
    }
    EXPECT_EQ(sequence.ids(), PoolRunner::continuation(sequence.prompt, 12)) << "strike " << sweep.strike();
    pair.expect_rest();
    sweep.ran(struck);
  }
  EXPECT_GT(replays, 20 / Sweep::kStride);
}

TEST(RoleSweeps, DecodeDiesAtEveryTurnAndAnotherOneGoesOn) {
  int replays = 0, failures = 0;
  for (Sweep sweep; sweep.more();) {
    Pair pair(sweep.options());
    const bool struck = run_with(pair, sweep.strike(), [&](RoutedSequence&) { pair.world.kill(pair.d); });
    RoutedSequence& sequence = pair.world.sequences.at(1);
    EXPECT_TRUE(pair.p.at_rest()) << "strike " << sweep.strike();
    EXPECT_EQ(sequence.done + sequence.failed, 1) << "P says how the handoff ended, once";
    if (sequence.failed > 0) {
      EXPECT_EQ(sequence.code, wire::ErrorCode::Unavailable) << sequence.message;
    }
    failures += sequence.failed;
    if (sequence.ids().size() < 12) {
      ++replays;
      RoleNode& other = pair.world.add(kDecode);
      pair.world.connect(pair.p, other);
      pair.world.next_attempt(sequence);
      pair.world.start_split(sequence, pair.p, other);
      pair.world.settle();
      EXPECT_TRUE(other.at_rest());
    }
    EXPECT_EQ(sequence.ids(), PoolRunner::continuation(sequence.prompt, 12)) << "strike " << sweep.strike();
    pair.expect_rest();
    sweep.ran(struck);
  }
  EXPECT_GT(replays, 20 / Sweep::kStride);
  EXPECT_GT(failures, 10 / Sweep::kStride);
}

}  // namespace
}  // namespace penstock
