// Causal attention over the paged KV cache, for any mix of prefill and decode rows in one call.
//
// q, out: [rows, q_heads * head_dim] f32, not overlapping; q_heads a multiple of kv_heads (grouped-query
// attention: query head h reads KV head h / (q_heads / kv_heads)). The row at position p attends to positions
// 0..p, which must be in the cache already (kv_append comes first). Rows in no slice are left alone.
//
// Keys are visited in tiles of 64 positions in rising order with one online-softmax update a tile (Milakov,
// Gimelshein 2018; Dao et al. 2022), the same operations for a row whether its slice is a prefill chunk or a
// single token and whatever the block size: results are equal bit for bit. No S x S matrix; nothing beyond a
// row's position can alter it. Reference: tests/reference/attention_reference.h.
#pragma once

#include <span>

#include "kernels/device.h"
#include "kernels/kv_layer.h"
#include "kernels/tensor.h"

namespace penstock {

// scale: usually 1 / sqrt(head_dim). Host spans must live until the stream has passed the call.
void paged_attention(Stream& stream, Matrix<const float> q, const KvLayerView& cache,
                     std::span<const SequenceSlice> slices, float scale, Matrix<float> out);

}  // namespace penstock
