// One layer of the paged KV cache, and which part of it a sequence uses: the arguments that kv_append and
// paged_attention share. Views: they own nothing.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/dtype.h"

namespace penstock {

// A block holds block_tokens tokens of every KV head. K: [kv head][token / 16][head_dim][16], columns of 16
// tokens, so that scores of 16 tokens are one vector; V: [kv head][token][head_dim].
struct KvLayerView {
  void* k = nullptr;  // [blocks] blocks, device memory
  void* v = nullptr;
  DType dtype = DType::kBf16;  // kBf16 or kF32
  int64_t blocks = 0;
  int64_t block_tokens = 64;  // a multiple of 16
  int64_t kv_heads = 0;
  int64_t head_dim = 0;  // a multiple of 16, at most 256

  int64_t block_elements() const { return kv_heads * block_tokens * head_dim; }
};

// `rows` consecutive tokens of one sequence, at rows [first_row, first_row + rows) of the batch's matrices
// and at positions first_position, first_position + 1, ... of the sequence. Position p lives in block_table[p
// / block_tokens]. The table is host memory and must cover the last position.
struct SequenceSlice {
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t first_position = 0;
  std::span<const uint32_t> block_table;
};

}  // namespace penstock
