#include "topology/cost_model.h"

#include <algorithm>

namespace penstock {
namespace {

// Launches, scheduling and sampling of one step on a GPU; a data sheet has no figure for it.
constexpr double kStepOverheadSeconds = 1e-3;
// Share of the peak memory bandwidth that streaming weights and KV reaches.
constexpr double kMemoryEfficiency = 0.8;

double inverse(double rate) { return rate > 0 ? 1.0 / rate : 0.0; }

}  // namespace

CostModel CostModel::from_measured(const MeasuredSpeeds& speeds) {
  CostModel cost;
  cost.prefill_token_s = inverse(speeds.prefill_toks);
  const double one = inverse(speeds.decode_b1_toks);
  const double many = static_cast<double>(speeds.decode_bmax) * inverse(speeds.decode_bmax_toks);
  // Two measured points give the line; with one of them the slope stays 0.
  if (one > 0 && many > 0 && speeds.decode_bmax > 1)
    cost.decode_sequence_s = std::max(0.0, many - one) / static_cast<double>(speeds.decode_bmax - 1);
  cost.decode_fixed_s = std::max(0.0, (one > 0 ? one : many) - cost.decode_sequence_s);
  return cost;
}

CostModel CostModel::from_spec(const DeviceSpec& device, const ModelShape& model) {
  const double flops = device.dense_tflops * 1e12 * device.matmul_efficiency;
  const double bytes_per_s = device.memory_gbps * 1e9 * kMemoryEfficiency;
  const double parameters = static_cast<double>(model.parameters);
  CostModel cost;
  cost.prefill_fixed_s = kStepOverheadSeconds;
  cost.prefill_token_s = 2 * parameters / flops;
  // Scores and weighted values: two products of 2 * head_dim operations for each head and layer.
  cost.prefill_attention_pair_s =
      4.0 * static_cast<double>(model.heads) * model.kv.head_dim * model.kv.layers / flops;
  cost.decode_fixed_s = kStepOverheadSeconds + parameters * model.weight_bytes / bytes_per_s;
  cost.decode_sequence_s = cost.prefill_token_s;
  cost.decode_context_token_s = static_cast<double>(model.kv.token_bytes()) / bytes_per_s;
  return cost;
}

double CostModel::prefill_seconds(int64_t new_tokens, int64_t cached_tokens) const {
  if (new_tokens <= 0) return 0;
  const double n = static_cast<double>(new_tokens), c = static_cast<double>(cached_tokens);
  return prefill_fixed_s + n * prefill_token_s + (n * c + n * (n - 1) / 2) * prefill_attention_pair_s;
}

double CostModel::decode_step_seconds(int64_t batch, int64_t context_tokens) const {
  if (batch <= 0) return 0;
  return decode_fixed_s + static_cast<double>(batch) * decode_sequence_s +
         static_cast<double>(context_tokens) * decode_context_token_s;
}

double CostModel::decode_marginal_seconds(int64_t batch, int64_t context_tokens_added) const {
  return batch <= 0 ? 0
                    : decode_step_seconds(batch + 1, context_tokens_added) - decode_step_seconds(batch, 0);
}

double transfer_seconds(const LinkSpeed& link, int64_t bytes) {
  return link.latency_s + static_cast<double>(bytes) * inverse(link.bytes_per_s);
}

double exposed_transfer_seconds(const LinkSpeed& link, int64_t bytes, double prefill_s, int64_t layers) {
  const double whole = static_cast<double>(bytes) * inverse(link.bytes_per_s);
  const double of_layer = whole / static_cast<double>(std::max<int64_t>(1, layers));
  const double compute_of_layer = prefill_s / static_cast<double>(std::max<int64_t>(1, layers));
  // Layer i may start once it is computed; the link works through them in order. The end is bounded by the
  // link (first layer's compute, then all bytes) or by the compute (all of it, then the last layer's bytes).
  const double end = std::max(compute_of_layer + whole, prefill_s + of_layer);
  return link.latency_s + end - prefill_s;
}

}  // namespace penstock
