// No sort of the vocabulary anywhere: block maxima and bounds on the dropped probability give a threshold
// that a few candidates pass, and all selection happens among those. Candidates stay in the order of their
// ids, so that the draw does not depend on how they were found.
#include "kernels/sampling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>

#include "base/rng.h"
#include "kernels/row_ops_cpu.h"

namespace penstock {
namespace {

constexpr float kGreedyBelow = 1e-5F;
constexpr float kNothing = -std::numeric_limits<float>::infinity();

// Fills scratch.block_max; returns the highest logit.
Result<float> scan_row(const RowOps& ops, std::span<const float> logits, SamplingScratch& scratch) {
  const auto n = static_cast<int64_t>(logits.size());
  if (n == 0) return fail(Error::kInvalidArgument, "sampling: empty row of logits");
  scratch.block_max.resize(static_cast<size_t>((n + kSamplingBlock - 1) / kSamplingBlock));
  if (!ops.block_maxima(logits.data(), n, scratch.block_max.data())) {
    const auto bad = std::ranges::find_if(logits, [](float x) { return !(x < INFINITY); });
    return fail(Error::kInternal, "sampling: the logit of token " + std::to_string(bad - logits.begin()) +
                                      " is " + (std::isnan(*bad) ? "NaN" : "infinite") +
                                      "; the model's weights or its input are broken");
  }
  const float highest = *std::ranges::max_element(scratch.block_max);
  if (highest == kNothing)
    return fail(Error::kInternal, "sampling: every logit is -inf; no token can be drawn");
  return highest;
}

TokenId first_with(float value, std::span<const float> logits, const SamplingScratch& scratch) {
  const auto block = std::ranges::find(scratch.block_max, value) - scratch.block_max.begin();
  return static_cast<TokenId>(std::find(logits.begin() + block * kSamplingBlock, logits.end(), value) -
                              logits.begin());
}

// Sum over the row of exp((x - highest) / temperature); scratch.chunk_sums keeps the parts.
double exp_sum(const RowOps& ops, std::span<const float> logits, float highest, float temperature,
               SamplingScratch& scratch) {
  const auto n = static_cast<int64_t>(logits.size());
  scratch.chunk_sums.resize(static_cast<size_t>((n + kSamplingChunk - 1) / kSamplingChunk));
  ops.exp_sums(logits.data(), n, highest, 1 / temperature, scratch.chunk_sums.data());
  return std::accumulate(scratch.chunk_sums.begin(), scratch.chunk_sums.end(), 0.0);
}

void collect_candidates(std::span<const float> logits, float threshold, SamplingScratch& scratch) {
  scratch.logits.clear();
  scratch.tokens.clear();
  for (size_t block = 0; block < scratch.block_max.size(); ++block) {
    if (scratch.block_max[block] < threshold) continue;
    const size_t begin = block * kSamplingBlock, end = std::min(begin + kSamplingBlock, logits.size());
    for (size_t i = begin; i < end; ++i) {
      if (logits[i] < threshold || logits[i] == kNothing) continue;
      scratch.logits.push_back(logits[i]);
      scratch.tokens.push_back(static_cast<TokenId>(i));
    }
  }
}

// Keeps the candidates that keep(index) accepts, in order.
template <typename Keep>
void filter_candidates(SamplingScratch& scratch, Keep keep) {
  size_t kept = 0;
  for (size_t i = 0; i < scratch.tokens.size(); ++i) {
    if (!keep(i)) continue;
    scratch.logits[kept] = scratch.logits[i];
    scratch.tokens[kept] = scratch.tokens[i];
    if (!scratch.weights.empty()) scratch.weights[kept] = scratch.weights[i];
    ++kept;
  }
  scratch.logits.resize(kept);
  scratch.tokens.resize(kept);
  if (!scratch.weights.empty()) scratch.weights.resize(kept);
}

float kth_largest(std::span<const float> values, int64_t k, std::vector<float>& order) {
  order.assign(values.begin(), values.end());
  std::nth_element(order.begin(), order.begin() + (k - 1), order.end(), std::greater<>());
  return order[static_cast<size_t>(k - 1)];
}

// The k highest logits become the candidates. The k-th highest block maximum is a lower bound of the k-th
// highest logit, and few others reach it.
void select_top_k(std::span<const float> logits, int64_t k, SamplingScratch& scratch) {
  const auto blocks = static_cast<int64_t>(scratch.block_max.size());
  scratch.weights.clear();
  collect_candidates(logits, k <= blocks ? kth_largest(scratch.block_max, k, scratch.order) : kNothing,
                     scratch);
  if (static_cast<int64_t>(scratch.tokens.size()) <= k) return;
  const float last = kth_largest(scratch.logits, k, scratch.order);
  int64_t ties = k - std::ranges::count_if(scratch.logits, [&](float x) { return x > last; });
  filter_candidates(scratch, [&](size_t i) {
    return scratch.logits[i] > last || (scratch.logits[i] == last && ties-- > 0);
  });
}

double compute_weights(const RowOps& ops, float highest, float temperature, SamplingScratch& scratch) {
  scratch.weights.resize(scratch.tokens.size());
  ops.exp_weights(scratch.logits.data(), static_cast<int64_t>(scratch.logits.size()), highest,
                  1 / temperature, scratch.weights.data());
  return std::accumulate(scratch.weights.begin(), scratch.weights.end(), 0.0);
}

// Without top_k: candidates among which is everything that top_p and min_p keep. They lie at most `bound`
// temperatures below the highest logit: for min_p by its definition; for top_p because what lies below
// ln(n / (1 - p)) weighs less than (1 - p) / n of the highest each, so all of it together less than 1 - p.
// That bound is wide, so shallower ones are tried first: once the candidates reach top_p, no other token
// matters.
void select_by_weight(const RowOps& ops, std::span<const float> logits, const SamplingParams& params,
                      float highest, double total, SamplingScratch& scratch) {
  double bound = INFINITY, depth = INFINITY;
  if (params.min_p > 0) depth = bound = -std::log(static_cast<double>(params.min_p)) * 1.0001 + 1e-3;
  if (params.top_p < 1) {
    bound =
        std::min(bound, std::log(static_cast<double>(logits.size()) / (1.0 - params.top_p)) * 1.0001 + 1e-3);
    depth = std::min(bound, 4.0);
  }
  for (;; depth = std::min(bound, 2 * depth)) {
    collect_candidates(logits, static_cast<float>(highest - params.temperature * depth), scratch);
    const double mass = compute_weights(ops, highest, params.temperature, scratch);
    if (depth >= bound || mass >= params.top_p * total) return;
  }
}

// Keeps the shortest most-probable-first prefix of the candidates whose weight reaches `target`. Buckets by
// logit stand in for a sort; only the bucket in which the prefix ends is sorted.
void apply_top_p(double target, SamplingScratch& scratch) {
  constexpr int kBuckets = 1024;
  const auto [lowest, highest] = std::ranges::minmax(scratch.logits);
  const float scale = highest > lowest ? (kBuckets - 1) / (highest - lowest) : 0.0F;
  const auto bucket_of = [&, top = highest](size_t i) {
    return std::min(static_cast<int>((top - scratch.logits[i]) * scale), kBuckets - 1);
  };
  std::array<double, kBuckets> mass{};
  for (size_t i = 0; i < scratch.tokens.size(); ++i) mass[bucket_of(i)] += scratch.weights[i];
  double before = 0;
  int last = 0;
  while (last < kBuckets && before + mass[last] < target) before += mass[last++];
  if (last == kBuckets) return;

  scratch.members.clear();
  for (size_t i = 0; i < scratch.tokens.size(); ++i) {
    if (bucket_of(i) == last) scratch.members.push_back(static_cast<int32_t>(i));
  }
  std::ranges::sort(scratch.members, [&](int32_t a, int32_t b) {
    return scratch.logits[a] != scratch.logits[b] ? scratch.logits[a] > scratch.logits[b] : a < b;
  });
  size_t end = 0;
  while (end < scratch.members.size() && before < target) before += scratch.weights[scratch.members[end++]];
  const int32_t cut = scratch.members[end == 0 ? 0 : end - 1];
  const float cut_logit = scratch.logits[cut];
  const TokenId cut_token = scratch.tokens[cut];
  filter_candidates(scratch, [&](size_t i) {
    return scratch.logits[i] > cut_logit ||
           (scratch.logits[i] == cut_logit && scratch.tokens[i] <= cut_token);
  });
}

// Uniform in [0, 1), 53 bits; the only randomness of this file.
double uniform_draw(const SamplingParams& params, int64_t position) {
  const auto words = counter_random(params.seed, params.choice, static_cast<uint64_t>(position));
  return static_cast<double>(((uint64_t{words[0]} << 32) | words[1]) >> 11) * 0x1.0p-53;
}

// The index at which the running sum first exceeds `target`, and the sum before it; rounding at the far end
// falls back to the last index that has weight.
struct Pick {
  size_t index = 0;
  double before = 0;
};
Pick pick(std::span<const float> weights, double target) {
  Pick last;
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    last = {i, sum};
    sum += weights[i];
    if (sum > target) break;
  }
  return last;
}

// No filter: first the chunk, by the sums that exp_sum() left, then the token in it.
TokenId draw_unfiltered(const RowOps& ops, std::span<const float> logits, float highest, float temperature,
                        double target, SamplingScratch& scratch) {
  const Pick chunk = pick(scratch.chunk_sums, target);
  const size_t begin = chunk.index * kSamplingChunk;
  const auto part = logits.subspan(begin, std::min<size_t>(kSamplingChunk, logits.size() - begin));
  scratch.weights.resize(part.size());
  ops.exp_weights(part.data(), static_cast<int64_t>(part.size()), highest, 1 / temperature,
                  scratch.weights.data());
  return static_cast<TokenId>(begin + pick(scratch.weights, target - chunk.before).index);
}

TokenId draw(const RowOps& ops, std::span<const float> logits, const SamplingParams& params, float highest,
             double u, double raw_sum, SamplingScratch& scratch) {
  const float temperature = params.temperature;
  double total = 0;  // weight of what top_p counts against
  if (params.top_k > 0 && params.top_k < static_cast<int64_t>(logits.size())) {
    select_top_k(logits, params.top_k, scratch);
    total = compute_weights(ops, highest, temperature, scratch);
  } else {
    total = temperature == 1 ? raw_sum : exp_sum(ops, logits, highest, temperature, scratch);
    if (params.top_p >= 1 && params.min_p <= 0) {
      return draw_unfiltered(ops, logits, highest, temperature, u * total, scratch);
    }
    select_by_weight(ops, logits, params, highest, total, scratch);
  }
  if (params.top_p < 1) apply_top_p(params.top_p * total, scratch);
  if (params.min_p > 0) {
    filter_candidates(scratch, [&](size_t i) { return scratch.weights[i] >= params.min_p; });
  }
  const double kept = std::accumulate(scratch.weights.begin(), scratch.weights.end(), 0.0);
  return scratch.tokens[pick(scratch.weights, u * kept).index];
}

Status out_of_range(const char* field, double value, const char* range) {
  return fail(Error::kInvalidArgument,
              std::string(field) + " must be " + range + ", not " + std::to_string(value));
}

}  // namespace

Status validate(const SamplingParams& params) {
  // Written so that NaN fails too.
  if (!(params.temperature >= 0 && params.temperature <= 1000)) {
    return out_of_range("temperature", params.temperature, "between 0 and 1000");
  }
  if (params.top_k < -1) return out_of_range("top_k", params.top_k, "at least 1, or 0 or -1 for all");
  if (!(params.top_p > 0 && params.top_p <= 1)) return out_of_range("top_p", params.top_p, "in (0, 1]");
  if (!(params.min_p >= 0 && params.min_p <= 1)) return out_of_range("min_p", params.min_p, "in [0, 1]");
  return {};
}

Result<Sampled> sample(Isa isa, std::span<const float> logits, const SamplingParams& params, int64_t position,
                       SamplingScratch& scratch) {
  const RowOps& ops = row_ops(isa);
  ASSIGN_OR_RETURN(const float highest, scan_row(ops, logits, scratch));
  const double raw_sum = exp_sum(ops, logits, highest, 1, scratch);
  const TokenId token =
      params.temperature < kGreedyBelow
          ? first_with(highest, logits, scratch)
          : draw(ops, logits, params, highest, uniform_draw(params, position), raw_sum, scratch);
  const double logprob = double{logits[static_cast<size_t>(token)]} - highest - std::log(raw_sum);
  return Sampled{token, static_cast<float>(logprob)};
}

Result<int> top_logprobs(Isa isa, std::span<const float> logits, int k, std::span<TokenLogprob> out,
                         SamplingScratch& scratch) {
  CHECK(k >= 0 && k <= kTopLogprobsMax);
  CHECK_LE(static_cast<size_t>(k), out.size());
  const RowOps& ops = row_ops(isa);
  ASSIGN_OR_RETURN(const float highest, scan_row(ops, logits, scratch));
  if (k == 0) return 0;
  const double log_sum = std::log(exp_sum(ops, logits, highest, 1, scratch));
  select_top_k(logits, k, scratch);
  const size_t count = scratch.tokens.size();
  for (size_t i = 0; i < count; ++i) {
    out[i] = {scratch.tokens[i], static_cast<float>(double{scratch.logits[i]} - highest - log_sum)};
  }
  // By logit, not by rounded log-probability: two logits may round to one.
  std::ranges::sort(out.first(count), [&](const TokenLogprob& a, const TokenLogprob& b) {
    const float x = logits[static_cast<size_t>(a.token)], y = logits[static_cast<size_t>(b.token)];
    return x != y ? x > y : a.token < b.token;
  });
  return static_cast<int>(count);
}

}  // namespace penstock
