// One prefill and one decode node, connected: what most tests of the roles begin with.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "tests/node/role_world.h"

namespace penstock {

inline constexpr NodeRole kPrefill = NodeRole::kPrefill;
inline constexpr NodeRole kDecode = NodeRole::kDecode;

inline std::vector<TokenId> prompt_of(uint64_t seed, int length) {
  Rng rng(seed);
  std::vector<TokenId> ids(static_cast<size_t>(length));
  for (TokenId& id : ids) id = static_cast<TokenId>(rng.below(PoolRunner::kVocab));
  return ids;
}

inline RoleWorldOptions seeded(uint64_t seed) {
  RoleWorldOptions options;
  options.network.seed = seed;
  return options;
}

struct Pair {
  explicit Pair(const RoleWorldOptions& options = {}, uint32_t prefill_blocks = 16,
                uint32_t decode_blocks = 16)
      : world(options), p(world.add(kPrefill, prefill_blocks)), d(world.add(kDecode, decode_blocks)) {
    world.connect(p, d);
  }
  ~Pair() { EXPECT_TRUE(world.problems.empty()) << world.problems.front(); }
  void expect_rest() {
    EXPECT_TRUE(p.at_rest() || !p.alive);
    EXPECT_TRUE(d.at_rest() || !d.alive);
    EXPECT_EQ(p.runner->mismatches + d.runner->mismatches, 0);
  }
  // A whole request goes through: nothing of what went before is in its way.
  void expect_works(uint64_t id) {
    RoutedSequence& next = world.request(id, prompt_of(id, 30));
    world.start_split(next, p, d);
    world.settle();
    EXPECT_EQ(next.ids(), PoolRunner::continuation(next.prompt, 12));
    expect_rest();
  }
  RoleWorld world;
  RoleNode& p;
  RoleNode& d;
};

}  // namespace penstock
