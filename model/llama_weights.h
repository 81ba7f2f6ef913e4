// The weights of a Llama model in device memory: one buffer, packed for the matmul kernels.
//
// Immutable once loaded; any thread may read. Matrices that read the same input are fused (Q, K and V; gate
// and up): one product instead of three or two. The embedding is kept row-major for the look-up and, as
// output matrix, packed.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "kernels/device.h"
#include "kernels/matmul.h"
#include "kernels/tensor.h"
#include "model/checkpoint.h"
#include "model/config.h"

namespace penstock {

struct LlamaLayerWeights {
  WeightVector input_norm;      // [hidden]
  PackedMatrix qkv;             // [(heads + 2 kv_heads) * head_dim, hidden]
  PackedMatrix output;          // [hidden, heads * head_dim]
  WeightVector post_attn_norm;  // [hidden]
  PackedMatrix gate_up;         // [2 ffn, hidden]
  PackedMatrix down;            // [hidden, ffn]
};

struct LlamaWeights {
  DeviceBuffer buffer;
  DType dtype = DType::kBf16;
  WeightMatrix embedding;  // [vocab, hidden], row-major
  std::vector<LlamaLayerWeights> layers;
  WeightVector final_norm;  // [hidden]
  PackedMatrix lm_head;     // [vocab, hidden]

  // `stream` is of `device`, a CPU; its threads convert and pack. Norm weights are widened to f32, after
  // rounding to `dtype`, so that a bf16 model is the same whether its file or its loading rounded it.
  [[nodiscard]] static Result<LlamaWeights> load(const Checkpoint& checkpoint, const ModelConfig& config,
                                                 DType dtype, Device& device, Stream& stream);
};

}  // namespace penstock
