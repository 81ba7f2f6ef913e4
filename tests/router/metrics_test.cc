#include "router/metrics.h"

#include <gtest/gtest.h>

namespace penstock::router {
namespace {

TEST(MetricsTest, LabelsFoldAfterAThousand) {
  LabelFolder folder;
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(folder.fold("m" + std::to_string(i)), "m" + std::to_string(i));
  EXPECT_EQ(folder.fold("one more"), "other");
  EXPECT_EQ(folder.fold("m999"), "m999") << "known ones stay";
}

TEST(MetricsTest, TtftBucketsAreTheContracts) {
  Registry registry;
  RouterMetrics metrics(registry);
  EXPECT_EQ(metrics.time_to_first_token.bounds(),
            (std::vector<double>{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                 1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560}));
}

TEST(MetricsTest, AliasesRepeatTheFamiliesThatDashboardsKnow) {
  Registry registry;
  RouterMetrics metrics(registry);
  metrics.prompt_tokens.add(3);
  const std::string plain = render_metrics(registry, false), aliased = render_metrics(registry, true);
  EXPECT_EQ(plain.find("vllm:"), std::string::npos);
  EXPECT_EQ(aliased.rfind(plain, 0), 0u) << "ours come first, unchanged";
  EXPECT_NE(aliased.find("\nvllm:prompt_tokens_total 3\n"), std::string::npos);
  EXPECT_NE(aliased.find("\n# TYPE vllm:num_requests_running gauge\n"), std::string::npos);
  EXPECT_NE(aliased.find("\nvllm:e2e_request_latency_seconds_bucket{"), std::string::npos);
  EXPECT_EQ(aliased.find("vllm:replays"), std::string::npos);
}

}  // namespace
}  // namespace penstock::router
