// Filters of sampling and raw log-probabilities, naively: a full sort, double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace penstock::reference {

struct Candidate {
  int32_t token;
  double probability;  // after all filters, renormalised
};

// Most probable first, the lower id first among equals. temperature > 0; order: temperature, top_k, top_p,
// min_p.
inline std::vector<Candidate> filtered_distribution(std::span<const float> logits, double temperature,
                                                    int64_t top_k, double top_p, double min_p) {
  std::vector<Candidate> all;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] != -INFINITY) all.push_back({static_cast<int32_t>(i), logits[i] / temperature});
  }
  std::ranges::stable_sort(all, [](const auto& a, const auto& b) { return a.probability > b.probability; });
  if (top_k > 0 && static_cast<int64_t>(all.size()) > top_k) all.resize(static_cast<size_t>(top_k));
  const double highest = all.front().probability;
  const auto normalise = [&] {
    double sum = 0;
    for (const Candidate& c : all) sum += c.probability;
    for (Candidate& c : all) c.probability /= sum;
  };
  for (Candidate& c : all) c.probability = std::exp(c.probability - highest);
  normalise();
  double cumulative = 0;
  size_t kept = 0;
  while (kept < all.size() && (kept == 0 || cumulative < top_p)) cumulative += all[kept++].probability;
  if (top_p < 1) all.resize(kept);
  const double floor = min_p * all.front().probability;
  std::erase_if(all, [&](const Candidate& c) { return c.probability < floor; });
  normalise();
  return all;
}

inline double raw_logprob(std::span<const float> logits, int32_t token) {
  const double highest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - highest);
  return logits[static_cast<size_t>(token)] - highest - std::log(sum);
}

}  // namespace penstock::reference
