// Model: a Llama-style decoder (RMSNorm, RoPE, grouped-query attention, SwiGLU) with its weights on a device.
//
// A Model owns its packed weights and its scratch, both taken at load: forward() allocates nothing. It
// belongs to the thread that calls forward(); one forward at a time. The KV cache is the caller's. Residual
// stream, accumulation and logits are f32; weights are bf16 or f32; K and V are stored as the pool's layout
// says.
//
// A row's logits depend on its sequence alone, bit for bit: not on the other rows of the batch, nor on how
// the sequence was cut into chunks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/function_ref.h"
#include "base/ids.h"
#include "base/result.h"
#include "kernels/device.h"
#include "kernels/dtype.h"
#include "kernels/isa.h"
#include "kernels/kv_layer.h"
#include "kernels/tensor.h"
#include "model/config.h"
#include "topology/kv_layout.h"

namespace penstock {

struct KvPoolView {
  void* base = nullptr;  // device memory, layout.pool_bytes(blocks) bytes
  KvLayout layout;       // layers, kv_heads and head_dim are the model's
  int64_t blocks = 0;
};

// One step's work: rows of several sequences, each a prefill chunk or a single token. Host memory, valid
// until the stream has passed the call. Every id, position, block number and row is checked by the caller:
// ids < vocab_size, positions < ModelOptions::positions_max, tokens.size() <= rows_max.
struct ForwardBatch {
  std::span<const TokenId> tokens;           // [rows]
  std::span<const int32_t> positions;        // [rows]: of each row in its sequence
  std::span<const SequenceSlice> sequences;  // cover all rows, no row twice
  std::span<const int32_t> logit_rows;       // rows whose logits are wanted, in any order; may be empty
};

// Called once per layer, in order, when this layer's K and V of all rows are in the pool in stream order. The
// last layer's comes before its attention.
using LayerCallback = FunctionRef<void(int layer)>;

// For tests and tools: the residual stream, seen in passing. `stage` is -1 after the embedding, l after layer
// l, and `layers` for the final norm. In the last layer and after, only rows of logit_rows are computed: the
// matrix then has one row for each of them, in that order. Device memory, valid during the call. An empty
// observer costs one test a layer.
using HiddenObserver = FunctionRef<void(int stage, Matrix<const float> hidden)>;

struct ModelOptions {
  DType dtype = DType::kBf16;  // of the weights in memory; kBf16 or kF32
  int64_t rows_max = 512;      // most rows of one forward
  int64_t logit_rows_max = 0;  // most logit rows of one forward; 0: rows_max
  int64_t positions_max = 0;   // 0: the model's context; larger than that is an error
  int threads = 1;             // workers for loading
  // Packed weights suit one instruction set: this one, else the one a default stream would take.
  std::optional<Isa> isa = std::nullopt;
};

class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelConfig& config() const = 0;
  virtual DType dtype() const = 0;
  virtual int64_t positions_max() const = 0;
  // Device memory of packed weights, norms and the embedding's row-major copy.
  virtual int64_t weights_bytes() const = 0;
  virtual int64_t scratch_bytes() const = 0;
  virtual uint64_t digest() const = 0;  // weights_digest()

  // logits: [logit_rows.size(), vocab_size] f32, device memory. `stream` must be of the device the model was
  // loaded on and of the instruction set it was packed for. On CUDA the work is only queued on return.
  virtual void forward(Stream& stream, const ForwardBatch& batch, const KvPoolView& pool,
                       Matrix<float> logits, LayerCallback on_layer, HiddenObserver observer = {}) = 0;
};

// The KV layout this model fills.
[[nodiscard]] KvLayout kv_layout_of(const ModelConfig& config, int32_t block_tokens, KvDtype dtype);

// Reads config.json and the safetensors of a Hugging Face folder. Weights are mapped, converted and packed by
// `options.threads` workers. Errors name folder, file, tensor.
[[nodiscard]] Result<std::unique_ptr<Model>> load_model(const std::string& dir, const ModelOptions& options,
                                                        Device& device);

}  // namespace penstock
