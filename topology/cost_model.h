// CostModel: how long a step or a transfer takes, in seconds. Pure arithmetic over plain values.
//
// One linear model serves the router's projections, the simulator's clock and device emulation:
//   prefill(n new, c cached) = fixed + n * token + (n * c + n * (n - 1) / 2) * attention_pair
//   decode(b sequences, c context tokens in all) = fixed + b * sequence + c * context_token
// Coefficients come from speeds a node measured at start, or from a device's data sheet. Both are estimates:
// nothing correct may depend on them.
#pragma once

#include <cstdint>

#include "topology/device_specs.h"
#include "topology/kv_layout.h"

namespace penstock {

// What a node reports at registration. Tokens/s.
struct MeasuredSpeeds {
  double prefill_toks = 0;      // one prompt of prefill_tokens
  double decode_b1_toks = 0;    // one sequence
  double decode_bmax_toks = 0;  // decode_bmax sequences together
  int64_t prefill_tokens = 512;
  int64_t decode_bmax = 16;
};

// What of a model decides its speed.
struct ModelShape {
  int64_t parameters = 0;   // that a token is multiplied with: embedding look-up not counted
  int64_t heads = 0;        // of queries
  double weight_bytes = 2;  // per parameter
  KvLayout kv;
};

struct CostModel {
  double prefill_fixed_s = 0;
  double prefill_token_s = 0;
  double prefill_attention_pair_s = 0;  // one new token against one earlier token, all layers
  double decode_fixed_s = 0;
  double decode_sequence_s = 0;
  double decode_context_token_s = 0;

  // A speed of 0 (not measured) gives a coefficient of 0.
  static CostModel from_measured(const MeasuredSpeeds& speeds);
  static CostModel from_spec(const DeviceSpec& device, const ModelShape& model);

  // Seconds to prefill `new_tokens` after `cached_tokens` whose KV exists.
  double prefill_seconds(int64_t new_tokens, int64_t cached_tokens = 0) const;
  // Seconds of one decode step of `batch` sequences with `context_tokens` of KV between them.
  double decode_step_seconds(int64_t batch, int64_t context_tokens = 0) const;
  // What one more sequence costs each step of those that already run: the slowdown it causes.
  double decode_marginal_seconds(int64_t batch, int64_t context_tokens_added) const;
};

struct LinkSpeed {
  double bytes_per_s = 0;
  double latency_s = 0;
};

// Seconds until `bytes` have arrived; a link of unknown speed (0) costs its latency alone.
[[nodiscard]] double transfer_seconds(const LinkSpeed& link, int64_t bytes);
// The part of a layer-by-layer transfer that prefill does not hide: the last layer's bytes at least, and all
// that the link falls behind. The transfer of a layer starts when its compute ends.
[[nodiscard]] double exposed_transfer_seconds(const LinkSpeed& link, int64_t bytes, double prefill_s,
                                              int64_t layers);

}  // namespace penstock
