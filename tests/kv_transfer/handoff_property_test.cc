// Random interleavings of everything that can go wrong, from a seed: no run may commit foreign bytes, touch
// another owner's block, lose a block or leave a transfer without an end. Each planted bug must be caught.
#include <gtest/gtest.h>

#include "kv_transfer/canary.h"
#include "tests/kv_transfer/handoff_world.h"

namespace penstock {
namespace {

constexpr uint64_t kSeeds = 800;

MemoryNetworkOptions network_of(uint64_t seed) {
  Rng rng(seed);
  MemoryNetworkOptions options;
  options.seed = seed;
  options.drop_message = rng.below(2) == 0 ? 0 : 0.2 * rng.uniform();
  options.duplicate_message = rng.below(2) == 0 ? 0 : 0.3 * rng.uniform();
  options.reorder_messages = rng.below(2) == 0;
  options.flip_byte = rng.below(4) == 0 ? 0.05 : 0;
  options.fail_put = rng.below(8) == 0 ? 0.02 : 0;
  options.network_lanes = rng.below(3) == 0;
  return options;
}

// The script of one run: a handful of transfers, each fed in random chunks, with random aborts and one
// process fault somewhere.
class Scenario {
 public:
  explicit Scenario(uint64_t seed) : rng_(seed * 31 + 7), world_(network_of(seed), options(seed)) {}

  size_t committed() const {
    size_t count = 0;
    for (const auto& [key, view] : world_.received) count += view.committed > 0 ? 1 : 0;
    return count;
  }

  std::vector<std::string> play() {
    const uint64_t steps = 600 + rng_.below(1200);
    const uint64_t fault_at = rng_.below(2 * steps);  // half of the runs have none
    for (uint64_t i = 0; i < steps; ++i) {
      if (i == fault_at) plant_fault();
      if (rng_.below(40) == 0) begin();
      if (rng_.below(3) == 0) feed();
      if (rng_.below(400) == 0) abort();
      if (rng_.below(60) == 0) world_.finish_committed();
      if (rng_.below(30) == 0) world_.clock.advance(Duration::from_ms(static_cast<int64_t>(rng_.below(120))));
      world_.step();
      if (i % 64 == 0) world_.check_free_blocks();
    }
    finish();
    return world_.problems;
  }

 private:
  static HandoffOptions options(uint64_t seed) {
    HandoffOptions options;
    options.digests = network_of(seed).flip_byte > 0 || seed % 3 != 0;
    options.put_bytes_max = 1024;
    options.progress_bytes = 2048;
    options.post_bytes_per_poll = 2048;
    options.lease = Duration::from_ms(600);
    return options;
  }

  struct Feed {
    HandoffKey key;
    uint32_t tokens = 0, ready = 0;
    int32_t layer = 0;
    bool committed = false;
  };

  void begin() {
    HandoffKey key{TransferId(++last_transfer_), Epoch(1)};
    if (!feeds_.empty() && rng_.below(4) == 0) {  // a replay of an earlier one
      key = feeds_[rng_.below(feeds_.size())].key;
      key.epoch = Epoch(key.epoch.value() + 1);
    }
    const auto tokens = static_cast<uint32_t>(1 + rng_.below(90));
    if (world_.start(key, tokens)) feeds_.push_back({key, tokens});
  }

  void feed() {
    if (feeds_.empty() || !world_.prefill_alive || world_.prefill_stopped) return;
    Feed& feed = feeds_[rng_.below(feeds_.size())];
    if (feed.layer < small_layout().layers) {
      feed.ready = rng_.below(2) == 0 ? feed.tokens : std::min<uint32_t>(feed.tokens, feed.ready + 20);
      world_.ready(feed.key, feed.layer, feed.ready);
      if (feed.ready == feed.tokens) {
        feed.layer += 1;
        feed.ready = 0;
      }
    } else if (!feed.committed) {
      feed.committed = true;
      world_.commit(feed.key);
    }
  }

  void abort() {
    if (feeds_.empty()) return;
    const HandoffKey key = feeds_[rng_.below(feeds_.size())].key;
    if (rng_.below(2) == 0 && world_.prefill_alive && !world_.prefill_stopped) {
      world_.sender->abort(world_.clock.now(), key, HandoffReason::kCancelled);
    } else if (world_.decode_alive) {
      world_.receiver->abort(world_.clock.now(), key, HandoffReason::kCancelled);
    }
  }

  void plant_fault() {
    switch (rng_.below(4)) {
      case 0:
        return world_.kill_prefill();
      case 1:
        return world_.kill_decode();
      case 2:
        return world_.stop_prefill();
      default:
        world_.decode_running = false;
    }
  }

  // Faults end, everything that was begun is fed to its end, and time passes.
  void finish() {
    world_.decode_running = true;
    if (world_.prefill_stopped) {
      if (world_.decode_alive) world_.receiver->peer_silent(world_.clock.now(), world_.prefill_at_decode);
      world_.pass(Duration::from_ms(3000));
      world_.resume_prefill();
    }
    for (Feed& feed : feeds_) {
      if (!world_.prefill_alive) break;
      world_.ready_all(feed.key);
      world_.commit(feed.key);
    }
    world_.pass(Duration::from_ms(8000));
    world_.check_free_blocks();
    close_failed_lanes();
    world_.pass(Duration::from_ms(8000));
    world_.check_end();
  }

  // What the node does about a lane in error: the connection goes, over shared memory the process too.
  void close_failed_lanes() {
    if (!world_.decode_alive || world_.receiver->quarantined_blocks() == 0) return;
    world_.decode->close(world_.prefill_at_decode);
    world_.pass(Duration::from_ms(1000));
    if (world_.receiver->quarantined_blocks() > 0) world_.kill_prefill();
  }

  Rng rng_;
  HandoffWorld world_;
  std::vector<Feed> feeds_;
  uint64_t last_transfer_ = 0;
};

TEST(HandoffProperty, EverySeedKeepsTheInvariants) {
  size_t committed = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Scenario scenario(seed);
    const std::vector<std::string> problems = scenario.play();
    ASSERT_TRUE(problems.empty()) << "seed " << seed << ": " << problems.front();
    committed += scenario.committed();
  }
  EXPECT_GT(committed, 2 * kSeeds);  // else the scenarios would prove nothing about success
}

class PlantedBug : public testing::TestWithParam<Canary> {
 protected:
  void SetUp() override { planted_canary = GetParam(); }
  void TearDown() override { planted_canary = Canary::kNone; }
};

TEST_P(PlantedBug, IsCaughtBySomeSeed) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    if (!Scenario(seed).play().empty()) return;
  }
  FAIL() << "no seed found the planted bug";
}

INSTANTIATE_TEST_SUITE_P(Canaries, PlantedBug,
                         testing::Values(Canary::kReleaseOnExpiry, Canary::kSkipDigest,
                                         Canary::kDrainedUnflushed, Canary::kCommitUnflushed,
                                         Canary::kForgetEnded, Canary::kNoStatus));

}  // namespace
}  // namespace penstock
