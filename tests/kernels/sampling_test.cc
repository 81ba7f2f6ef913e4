#include "kernels/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "tests/kernels/random_data.h"
#include "tests/reference/sampling_reference.h"

namespace penstock {
namespace {

// The levels above AVX-512 share its row operations.
std::vector<Isa> distinct_row_ops() {
  std::vector<Isa> isas = available_isas();
  std::erase_if(isas, [](Isa isa) { return isa > Isa::kAvx512; });
  return isas;
}

class SamplingTest : public testing::TestWithParam<Isa> {
 protected:
  TokenId draw(const std::vector<float>& logits, const SamplingParams& params, int64_t position = 0) {
    const auto sampled = sample(GetParam(), logits, params, position, scratch_);
    CHECK(sampled.ok());
    return sampled->token;
  }
  // What `draws` positions give.
  std::map<TokenId, int> histogram(const std::vector<float>& logits, const SamplingParams& params,
                                   int draws) {
    std::map<TokenId, int> counts;
    for (int position = 0; position < draws; ++position) ++counts[draw(logits, params, position)];
    return counts;
  }
  // Chi-square of a histogram against the reference's distribution; every drawn token must be in it.
  void expect_distribution(const std::vector<float>& logits, const SamplingParams& params) {
    const auto expected = reference::filtered_distribution(logits, params.temperature, params.top_k,
                                                           params.top_p, params.min_p);
    constexpr int kDraws = 10000;
    auto counts = histogram(logits, params, kDraws);
    double chi_square = 0, rare_expected = 0, rare_count = 0;
    int bins = 0;
    for (const auto& candidate : expected) {
      const double mean = candidate.probability * kDraws;
      const double count = counts.contains(candidate.token) ? counts[candidate.token] : 0;
      counts.erase(candidate.token);
      if (mean < 10) {
        rare_expected += mean;
        rare_count += count;
        continue;
      }
      chi_square += (count - mean) * (count - mean) / mean;
      ++bins;
    }
    EXPECT_TRUE(counts.empty()) << "token " << counts.begin()->first << " should have been filtered";
    if (rare_expected > 10) {
      chi_square += (rare_count - rare_expected) * (rare_count - rare_expected) / rare_expected;
      ++bins;
    }
    const double freedom = std::max(bins - 1, 0);  // mean and variance of chi-square: f, 2 f
    EXPECT_LT(chi_square, freedom + 4.5 * std::sqrt(2 * freedom) + 1e-3) << bins << " bins";
  }
  SamplingScratch scratch_;
};

INSTANTIATE_TEST_SUITE_P(Machine, SamplingTest, testing::ValuesIn(distinct_row_ops()),
                         [](const auto& param_info) { return std::string(isa_name(param_info.param)); });

TEST_P(SamplingTest, GreedyTakesTheFirstOfEquals) {
  for (const int64_t n : {1, 5, 16, 63, 64, 65, 1000, 49152}) {
    Rng rng(static_cast<uint64_t>(n));
    auto logits = random_floats(rng, n);
    for (const int64_t at : {int64_t{0}, n / 3, n - 1}) {
      auto row = logits;
      row[at] = 50;
      row[n - 1] = 50;
      EXPECT_EQ(draw(row, {.temperature = 0}), at);
      EXPECT_EQ(draw(row, {.temperature = 1e-6F}), at);
      EXPECT_EQ(draw(row, {.temperature = 0.01F, .top_k = 1}), at);
    }
  }
}

TEST_P(SamplingTest, LogprobsAreOfTheRawDistribution) {
  Rng rng(11);
  for (const int64_t n : {3, 300, 49152, 151936}) {
    const auto logits = random_floats(rng, n, 4);
    for (const SamplingParams params : {SamplingParams{.temperature = 0}, SamplingParams{.temperature = 0.7F},
                                        SamplingParams{.temperature = 1.5F, .top_k = 40, .top_p = 0.9F}}) {
      const auto sampled = sample(GetParam(), logits, params, 3, scratch_);
      ASSERT_TRUE(sampled.ok());
      EXPECT_NEAR(sampled->logprob, reference::raw_logprob(logits, sampled->token), 3e-6);
    }
  }
}

TEST_P(SamplingTest, TopLogprobs) {
  Rng rng(12);
  for (const int64_t n : {1, 7, 64, 1281, 49152}) {
    auto logits = random_floats(rng, n, 4);
    for (int64_t i = 0; i + 3 < n; i += 97) logits[i + 3] = logits[i];  // ties
    std::vector<TokenId> order(n);
    for (int64_t i = 0; i < n; ++i) order[i] = static_cast<TokenId>(i);
    std::ranges::stable_sort(order, [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
    for (const int k : {0, 1, 5, 20}) {
      std::vector<TokenLogprob> top(20);
      const auto count = top_logprobs(GetParam(), logits, k, top, scratch_);
      ASSERT_TRUE(count.ok());
      ASSERT_EQ(*count, std::min<int64_t>(k, n));
      for (int i = 0; i < *count; ++i) {
        EXPECT_EQ(top[i].token, order[i]);
        EXPECT_NEAR(top[i].logprob, reference::raw_logprob(logits, order[i]), 3e-6);
      }
    }
  }
}

TEST_P(SamplingTest, DistributionsFollowTheReference) {
  const std::vector<float> logits = {1.0F, 3.0F, 2.0F, 0.5F, 3.0F, -1.0F, 2.5F, -INFINITY, 0.0F, 1.5F, -8.0F};
  expect_distribution(logits, {.seed = 1});
  expect_distribution(logits, {.temperature = 0.5F, .seed = 2});
  expect_distribution(logits, {.temperature = 2, .seed = 3});
  expect_distribution(logits, {.top_k = 3, .seed = 4});
  expect_distribution(logits, {.top_p = 0.7F, .seed = 5});
  expect_distribution(logits, {.min_p = 0.3F, .seed = 6});
  expect_distribution(logits, {.temperature = 1.3F, .top_k = 6, .top_p = 0.9F, .min_p = 0.1F, .seed = 7});
  expect_distribution(logits, {.top_p = 1e-6F, .seed = 8});
  expect_distribution(logits, {.min_p = 1, .seed = 9});
  expect_distribution(logits, {.top_k = -1, .seed = 10, .choice = 3});
}

TEST_P(SamplingTest, DistributionsOverALargeVocabulary) {
  Rng rng(13);
  const auto logits = random_floats(rng, 1500, 3);
  expect_distribution(logits, {.seed = 21});
  expect_distribution(logits, {.temperature = 1.7F, .top_p = 0.95F, .seed = 22});
  expect_distribution(logits, {.temperature = 0.8F, .top_k = 50, .seed = 23});
  expect_distribution(logits, {.top_k = 1200, .top_p = 0.5F, .seed = 24});
  expect_distribution(logits, {.temperature = 1.2F, .min_p = 0.02F, .seed = 25});
  expect_distribution(logits, {.top_p = 0.8F, .min_p = 0.05F, .seed = 26});
}

// Which tokens can be drawn at all, exactly: every kept one is forced to appear by drawing until it does.
TEST_P(SamplingTest, FiltersKeepExactlyTheReferencesSet) {
  Rng rng(14);
  int tested = 0;
  for (int round = 0; round < 80; ++round) {
    const auto logits = random_floats(rng, rng.between(2, 300), 1);
    SamplingParams params{.temperature = static_cast<float>(0.3 + 2 * rng.uniform()), .seed = rng()};
    if (round % 2 == 0) params.top_k = static_cast<int32_t>(rng.between(1, 12));
    if (round % 3 == 0) params.top_p = static_cast<float>(0.05 + 0.6 * rng.uniform());
    if (round % 5 == 0) params.min_p = static_cast<float>(0.6 * rng.uniform());
    const auto expected = reference::filtered_distribution(logits, params.temperature, params.top_k,
                                                           params.top_p, params.min_p);
    if (expected.back().probability < 3e-3) continue;  // would take too many draws
    ++tested;
    std::set<TokenId> kept, drawn;
    for (const auto& candidate : expected) kept.insert(candidate.token);
    const int draws = static_cast<int>(14 / expected.back().probability);  // e^-14 to miss the rarest
    for (const auto& [token, count] : histogram(logits, params, draws)) drawn.insert(token);
    EXPECT_EQ(drawn, kept) << "round " << round;
  }
  EXPECT_GE(tested, 40);
}

TEST_P(SamplingTest, TopKKeepsTheLowestIdsOfEquals) {
  const std::vector<float> logits(1000, 1.0F);
  for (const auto& [token, count] : histogram(logits, {.top_k = 5}, 500)) EXPECT_LT(token, 5);
  for (const auto& [token, count] : histogram(logits, {.top_p = 0.01F}, 500)) EXPECT_LT(token, 10);
}

TEST_P(SamplingTest, TheDrawDependsOnSeedChoiceAndPositionOnly) {
  Rng rng(15);
  const auto logits = random_floats(rng, 3000);
  const SamplingParams params{.temperature = 1.5F, .seed = 99, .choice = 1};
  std::vector<TokenId> first, again, other_seed, other_choice;
  for (int position = 0; position < 200; ++position) first.push_back(draw(logits, params, position));
  for (int position = 199; position >= 0; --position) again.push_back(draw(logits, params, position));
  std::ranges::reverse(again);
  EXPECT_EQ(first, again);
  SamplingParams changed = params;
  changed.seed = 100;
  for (int position = 0; position < 200; ++position) other_seed.push_back(draw(logits, changed, position));
  changed = params;
  changed.choice = 2;
  for (int position = 0; position < 200; ++position) other_choice.push_back(draw(logits, changed, position));
  EXPECT_NE(first, other_seed);
  EXPECT_NE(first, other_choice);
  EXPECT_NE(other_seed, other_choice);
  EXPECT_GT(std::set<TokenId>(first.begin(), first.end()).size(), 100U);
}

TEST_P(SamplingTest, BrokenRowsAreErrors) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const int64_t n : {1, 17, 64, 100, 4097}) {
    for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
      for (const float bad : {nan, inf}) {
        std::vector<float> logits(static_cast<size_t>(n), 1.0F);
        logits[at] = bad;
        for (const float temperature : {0.0F, 1.0F}) {
          const auto sampled = sample(GetParam(), logits, {.temperature = temperature}, 0, scratch_);
          ASSERT_FALSE(sampled.ok());
          EXPECT_EQ(sampled.code(), Error::kInternal);
          EXPECT_NE(sampled.message().find("token " + std::to_string(at) + " "), std::string::npos);
        }
        std::vector<TokenLogprob> top(20);
        EXPECT_FALSE(top_logprobs(GetParam(), logits, 5, top, scratch_).ok());
      }
    }
    const std::vector<float> nothing(static_cast<size_t>(n), -inf);
    EXPECT_FALSE(sample(GetParam(), nothing, {}, 0, scratch_).ok());
  }
  EXPECT_FALSE(sample(GetParam(), {}, {}, 0, scratch_).ok());
}

TEST_P(SamplingTest, MaskedTokensAreNeverDrawn) {
  std::vector<float> logits(700, -INFINITY);
  logits[333] = -5;
  logits[600] = -5;
  for (const SamplingParams params : {SamplingParams{}, SamplingParams{.top_k = 50},
                                      SamplingParams{.top_p = 0.99F}, SamplingParams{.temperature = 100}}) {
    const auto counts = histogram(logits, params, 400);
    EXPECT_EQ(counts.size(), 2U);
    EXPECT_TRUE(counts.contains(333) && counts.contains(600));
  }
}

TEST(SamplingParams, Validation) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(validate({}).ok());
  EXPECT_TRUE(validate({.temperature = 0, .top_k = -1, .top_p = 1, .min_p = 1}).ok());
  for (const SamplingParams params :
       {SamplingParams{.temperature = nan}, SamplingParams{.temperature = -0.1F},
        SamplingParams{.temperature = INFINITY}, SamplingParams{.top_k = -2}, SamplingParams{.top_p = 0},
        SamplingParams{.top_p = nan}, SamplingParams{.top_p = 1.01F}, SamplingParams{.min_p = nan},
        SamplingParams{.min_p = 1.5F}}) {
    EXPECT_EQ(validate(params).code(), Error::kInvalidArgument);
  }
  EXPECT_NE(validate({.top_p = 7}).message().find("top_p"), std::string::npos);
}

}  // namespace
}  // namespace penstock
