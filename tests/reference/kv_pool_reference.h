// Where one element of K or V lies in a plane of the KV pool (one layer, K or V), spelled out naively.
//
// Plane: [block][kv head] of K: [token / 16][head_dim][16], V: [token][head_dim].
#pragma once

#include <cstdint>

namespace penstock::reference {

struct PoolShape {
  int64_t kv_heads, head_dim, block_tokens = 64;
  int64_t block_elements() const { return kv_heads * head_dim * block_tokens; }
};

inline int64_t k_index(const PoolShape& shape, int64_t block, int64_t token_in_block, int64_t kv_head,
                       int64_t i) {
  const int64_t head_base = block * shape.block_elements() + kv_head * shape.block_tokens * shape.head_dim;
  return head_base + (token_in_block / 16) * shape.head_dim * 16 + i * 16 + token_in_block % 16;
}

inline int64_t v_index(const PoolShape& shape, int64_t block, int64_t token_in_block, int64_t kv_head,
                       int64_t i) {
  const int64_t head_base = block * shape.block_elements() + kv_head * shape.block_tokens * shape.head_dim;
  return head_base + token_in_block * shape.head_dim + i;
}

}  // namespace penstock::reference
