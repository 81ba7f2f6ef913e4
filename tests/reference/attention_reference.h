// Causal grouped-query attention in double precision over plain arrays, without blocks or online softmax.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace penstock::reference {

struct AttentionShape {
  int64_t heads, kv_heads, head_dim;
};

// One query row at `position`: q is [heads, head_dim], k and v are [tokens, kv_heads, head_dim] with
// tokens > position. Attends to tokens 0 .. position; scores are scaled by 1 / sqrt(head_dim).
inline std::vector<double> attention_row(std::span<const float> q, std::span<const float> k,
                                         std::span<const float> v, const AttentionShape& shape,
                                         int64_t position) {
  const int64_t d = shape.head_dim, group = shape.heads / shape.kv_heads, row = shape.kv_heads * d;
  std::vector<double> y(static_cast<size_t>(shape.heads * d), 0.0);
  std::vector<double> scores(static_cast<size_t>(position + 1));
  for (int64_t h = 0; h < shape.heads; ++h) {
    const int64_t kv_offset = (h / group) * d;
    double highest = -INFINITY, sum = 0;
    for (int64_t t = 0; t <= position; ++t) {
      double dot = 0;
      for (int64_t i = 0; i < d; ++i) dot += static_cast<double>(q[h * d + i]) * k[t * row + kv_offset + i];
      scores[t] = dot / std::sqrt(static_cast<double>(d));
      highest = std::max(highest, scores[t]);
    }
    for (double& score : scores) sum += score = std::exp(score - highest);
    for (int64_t t = 0; t <= position; ++t) {
      for (int64_t i = 0; i < d; ++i) y[h * d + i] += scores[t] / sum * v[t * row + kv_offset + i];
    }
  }
  return y;
}

}  // namespace penstock::reference
