// Writes the K and V rows of a batch into the blocks of their sequences.
//
// k, v: [rows, kv_heads * head_dim] f32 (column slices of a fused QKV matrix are fine), rounded to the
// cache's dtype, ties to even. Only the positions named are written. Host spans must live until the stream
// has passed the call. A block number outside the pool is a CHECK failure.
#pragma once

#include <span>

#include "kernels/device.h"
#include "kernels/kv_layer.h"
#include "kernels/tensor.h"

namespace penstock {

void kv_append(Stream& stream, Matrix<const float> k, Matrix<const float> v, const KvLayerView& cache,
               std::span<const SequenceSlice> slices);

}  // namespace penstock
