// Sampling of one token from one row of logits, on the host.
//
// The draw is a pure function of (logits row, params, position): counter-based randomness keyed by (seed;
// choice, position), no state, so that a replayed or moved request goes on as it would have. Filters apply in
// this order: temperature, top_k, top_p, min_p. Log-probabilities are natural logarithms of the RAW
// distribution, before temperature and filters.
// Reference: tests/reference/sampling_reference.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kernels/isa.h"

namespace penstock {

inline constexpr int kTopLogprobsMax = 20;

struct SamplingParams {
  float temperature = 1;  // 0 (and what is below 1e-5): greedy, the highest logit, the lowest id among equals
  int32_t top_k = 0;      // keep the k most probable, the lowest ids among equals; 0 or -1: all
  float top_p = 1;        // keep the shortest most-probable-first prefix whose probability reaches top_p
  float min_p = 0;        // keep what is at least min_p times as probable as the most probable
  uint64_t seed = 0;
  uint32_t choice = 0;  // index of the choice within its request (n > 1)
};

// kInvalidArgument names the field, its value and its range.
Status validate(const SamplingParams& params);

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;
};
using Sampled = TokenLogprob;

// Buffers reused between calls, so that a step allocates nothing once it has seen its vocabulary. One thread.
struct SamplingScratch {
  std::vector<float> block_max;   // highest logit of each block of the row
  std::vector<float> chunk_sums;  // sum of exp of each chunk of the row
  std::vector<float> logits;      // of the candidates, in order of token id
  std::vector<TokenId> tokens;    // of the candidates
  std::vector<float> weights;     // of the candidates: exp((logit - highest) / temperature)
  std::vector<float> order;       // for selection
  std::vector<int32_t> members;   // indexes of candidates, of one bucket
};

// params must have passed validate(). kInternal when the row holds NaN or +inf, or nothing finite: the model
// or its input is broken, and no token would mean anything. -inf alone marks a token that cannot be drawn.
Result<Sampled> sample(Isa isa, std::span<const float> logits, const SamplingParams& params, int64_t position,
                       SamplingScratch& scratch);

// The k <= kTopLogprobsMax most probable tokens, most probable first, the lower id first among equals.
// Returns how many were written into `out` (fewer than k when fewer have a finite logit). Errors as sample().
Result<int> top_logprobs(Isa isa, std::span<const float> logits, int k, std::span<TokenLogprob> out,
                         SamplingScratch& scratch);

}  // namespace penstock
