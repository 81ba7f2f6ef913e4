#include "sim/scenario.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace penstock::sim {
namespace {

TEST(Scenario, EverySeedIsWithinItsPromise) {
  std::set<FaultKind> kinds;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    const Scenario s = draw_scenario(seed);
    EXPECT_GE(s.requests.size(), 200u);
    EXPECT_GE(s.faults.size(), 3u);
    const auto prefill = std::count_if(s.nodes.begin(), s.nodes.end(),
                                       [](const NodePlan& n) { return n.role == NodeRole::kPrefill; });
    const auto decode = static_cast<int64_t>(s.nodes.size()) - prefill;
    EXPECT_EQ(prefill, s.prefill_nodes);
    EXPECT_TRUE(prefill >= 2 && prefill <= 4 && decode >= 2 && decode <= 4);
    std::set<SequenceId> ids;
    for (const RequestPlan& request : s.requests) {
      EXPECT_TRUE(ids.insert(request.sequence).second);
      for (const NodePlan& node : s.nodes)
        EXPECT_LT(request.prompt_tokens + request.tokens_max, node.batch.context_max);
    }
    for (const FaultPlan& fault : s.faults) kinds.insert(fault.kind);
  }
  EXPECT_EQ(kinds.size(), static_cast<size_t>(kFaultKinds));
}

TEST(Scenario, TokensDependOnSequenceAndPosition) {
  EXPECT_EQ(token_at(SequenceId(3), 4), token_at(SequenceId(3), 4));
  EXPECT_NE(token_at(SequenceId(3), 4), token_at(SequenceId(3), 5));
  EXPECT_NE(token_at(SequenceId(3), 4), token_at(SequenceId(4), 4));
  EXPECT_GE(token_at(SequenceId(1), 1), 0);
}

}  // namespace
}  // namespace penstock::sim
