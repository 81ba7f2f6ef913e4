#include "model/llama.h"

#include <cmath>

#include "kernels/embedding.h"
#include "kernels/kv_append.h"
#include "kernels/matmul.h"
#include "kernels/paged_attention.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"
#include "model/checkpoint.h"
#include "model/llama_weights.h"
#include "model/weights_digest.h"

namespace penstock {
namespace {

DType dtype_of(KvDtype dtype) { return dtype == KvDtype::kBf16 ? DType::kBf16 : DType::kF32; }

KvLayerView layer_view(const KvPoolView& pool, int32_t layer) {
  auto* base = static_cast<std::byte*>(pool.base);
  const KvLayout& layout = pool.layout;
  return {base + layout.plane_offset(layer, false, pool.blocks),
          base + layout.plane_offset(layer, true, pool.blocks),
          dtype_of(layout.dtype),
          pool.blocks,
          layout.block_tokens,
          layout.kv_heads,
          layout.head_dim};
}

// Intermediate results of one forward, for the largest batch. The last layer and what follows it work on the
// rows whose logits are wanted, and have matrices of their own.
struct Scratch {
  DeviceBuffer buffer;
  TokenId* tokens = nullptr;
  int32_t* positions = nullptr;
  int32_t* logit_rows = nullptr;
  Matrix<float> hidden, normed, qkv, attention, gate_up, activated;
  Matrix<float> last_hidden, last_attention;

  static Result<Scratch> make(const ModelConfig& config, int64_t rows, int64_t logit_rows, Device& device);
};

Result<Scratch> Scratch::make(const ModelConfig& config, int64_t rows, int64_t logit_rows, Device& device) {
  Scratch scratch;
  std::byte* base = nullptr;
  int64_t used = 0;
  const auto take = [&](int64_t count) {  // elements of four bytes, aligned to 64
    std::byte* place = base == nullptr ? nullptr : base + used;
    used += (count * 4 + 63) / 64 * 64;
    return place;
  };
  const auto matrix = [&](int64_t row_count, int64_t cols) {
    return Matrix<float>(reinterpret_cast<float*>(take(row_count * cols)), row_count, cols);
  };
  const auto lay_out = [&] {
    used = 0;
    scratch.tokens = reinterpret_cast<TokenId*>(take(rows));
    scratch.positions = reinterpret_cast<int32_t*>(take(rows));
    scratch.logit_rows = reinterpret_cast<int32_t*>(take(logit_rows));
    scratch.hidden = matrix(rows, config.hidden_size);
    scratch.normed = matrix(rows, config.hidden_size);
    scratch.qkv = matrix(rows, config.qkv_size());
    scratch.attention = matrix(rows, config.q_size());
    scratch.gate_up = matrix(rows, 2 * config.ffn_size);
    scratch.activated = matrix(rows, config.ffn_size);
    scratch.last_hidden = matrix(logit_rows, config.hidden_size);
    scratch.last_attention = matrix(logit_rows, config.q_size());
  };
  lay_out();
  auto buffer = device.allocate(used);
  if (!buffer.ok()) return std::move(buffer).with_context("scratch of the forward pass").failure();
  scratch.buffer = std::move(*buffer);
  base = scratch.buffer.as<std::byte>();
  lay_out();
  return scratch;
}

class LlamaModel final : public Model {
 public:
  LlamaModel(ModelConfig config, uint64_t digest, int64_t positions_max, LlamaWeights weights,
             RopeTable rope_table, Scratch scratch)
      : config_(std::move(config)),
        digest_(digest),
        positions_max_(positions_max),
        weights_(std::move(weights)),
        rope_table_(std::move(rope_table)),
        scratch_(std::move(scratch)) {}

  const ModelConfig& config() const override { return config_; }
  DType dtype() const override { return weights_.dtype; }
  int64_t positions_max() const override { return positions_max_; }
  int64_t weights_bytes() const override { return weights_.buffer.bytes(); }
  int64_t scratch_bytes() const override { return scratch_.buffer.bytes(); }
  uint64_t digest() const override { return digest_; }
  void forward(Stream& stream, const ForwardBatch& batch, const KvPoolView& pool, Matrix<float> logits,
               LayerCallback on_layer, HiddenObserver observer) override;

 private:
  void check(const ForwardBatch& batch, const KvPoolView& pool, const Matrix<float>& logits) const;
  void embed(Stream& stream, const ForwardBatch& batch);
  void append_kv(Stream& stream, const LlamaLayerWeights& layer, const ForwardBatch& batch,
                 const KvLayerView& cache);
  void attend(Stream& stream, const ForwardBatch& batch, const KvLayerView& cache);
  void finish_layer(Stream& stream, const LlamaLayerWeights& layer, Matrix<const float> attention,
                    Matrix<float> hidden);
  void gather_logit_rows(Stream& stream, int64_t rows, int64_t logit_rows);

  float eps() const { return static_cast<float>(config_.rms_norm_eps); }

  ModelConfig config_;
  uint64_t digest_;
  int64_t positions_max_;
  LlamaWeights weights_;
  RopeTable rope_table_;
  Scratch scratch_;
};

void LlamaModel::forward(Stream& stream, const ForwardBatch& batch, const KvPoolView& pool,
                         Matrix<float> logits, LayerCallback on_layer, HiddenObserver observer) {
  check(batch, pool, logits);
  const auto rows = static_cast<int64_t>(batch.tokens.size());
  const auto logit_rows = static_cast<int64_t>(batch.logit_rows.size());
  const auto last = static_cast<int>(config_.layers) - 1;
  Matrix<float> hidden = scratch_.hidden.row_slice(0, rows);
  Matrix<float> attention = scratch_.attention.row_slice(0, rows);
  embed(stream, batch);
  if (observer) observer(-1, hidden);
  for (int l = 0; l <= last; ++l) {
    const LlamaLayerWeights& layer = weights_.layers[static_cast<size_t>(l)];
    const KvLayerView cache = layer_view(pool, l);
    append_kv(stream, layer, batch, cache);
    if (on_layer) on_layer(l);
    if (l == last && logit_rows == 0) return;  // a prefill chunk that only fills the cache
    attend(stream, batch, cache);
    if (l == last) {
      gather_logit_rows(stream, rows, logit_rows);
      hidden = scratch_.last_hidden.row_slice(0, logit_rows);
      attention = scratch_.last_attention.row_slice(0, logit_rows);
    }
    finish_layer(stream, layer, attention, hidden);
    if (observer) observer(l, hidden);
  }
  rmsnorm(stream, hidden, weights_.final_norm, eps(), hidden);
  if (observer) observer(last + 1, hidden);
  matmul(stream, hidden, weights_.lm_head, logits);
}

void LlamaModel::embed(Stream& stream, const ForwardBatch& batch) {
  const auto rows = static_cast<int64_t>(batch.tokens.size());
  const auto logit_rows = static_cast<int64_t>(batch.logit_rows.size());
  stream.copy_async(scratch_.tokens, batch.tokens.data(), rows * 4, CopyKind::kHostToDevice);
  stream.copy_async(scratch_.positions, batch.positions.data(), rows * 4, CopyKind::kHostToDevice);
  stream.copy_async(scratch_.logit_rows, batch.logit_rows.data(), logit_rows * 4, CopyKind::kHostToDevice);
  embedding(stream, weights_.embedding, scratch_.tokens, scratch_.hidden.row_slice(0, rows));
}

void LlamaModel::append_kv(Stream& stream, const LlamaLayerWeights& layer, const ForwardBatch& batch,
                           const KvLayerView& cache) {
  const auto rows = static_cast<int64_t>(batch.tokens.size());
  const Matrix<float> normed = scratch_.normed.row_slice(0, rows), qkv = scratch_.qkv.row_slice(0, rows);
  rmsnorm(stream, scratch_.hidden.row_slice(0, rows), layer.input_norm, eps(), normed);
  matmul(stream, normed, layer.qkv, qkv);
  rope(stream, qkv, config_.heads + config_.kv_heads, rope_table_, scratch_.positions);
  const int64_t q = config_.q_size(), kv = config_.kv_size();
  kv_append(stream, qkv.col_slice(q, kv), qkv.col_slice(q + kv, kv), cache, batch.sequences);
}

void LlamaModel::attend(Stream& stream, const ForwardBatch& batch, const KvLayerView& cache) {
  const auto rows = static_cast<int64_t>(batch.tokens.size());
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)));
  paged_attention(stream, scratch_.qkv.row_slice(0, rows).col_slice(0, config_.q_size()), cache,
                  batch.sequences, scale, scratch_.attention.row_slice(0, rows));
}

void LlamaModel::finish_layer(Stream& stream, const LlamaLayerWeights& layer, Matrix<const float> attention,
                              Matrix<float> hidden) {
  matmul(stream, attention, layer.output, hidden, Accumulate::kAdd);
  const Matrix<float> normed = scratch_.normed.row_slice(0, hidden.rows);
  const Matrix<float> gate_up = scratch_.gate_up.row_slice(0, hidden.rows);
  const Matrix<float> activated = scratch_.activated.row_slice(0, hidden.rows);
  rmsnorm(stream, hidden, layer.post_attn_norm, eps(), normed);
  matmul(stream, normed, layer.gate_up, gate_up);
  swiglu(stream, gate_up, activated);
  matmul(stream, activated, layer.down, hidden, Accumulate::kAdd);
}

// A look-up in a table of rows is all that a gather is.
void LlamaModel::gather_logit_rows(Stream& stream, int64_t rows, int64_t logit_rows) {
  const auto gather = [&](const Matrix<float>& from, const Matrix<float>& to) {
    embedding(stream, {from.data, DType::kF32, rows, from.cols, from.stride}, scratch_.logit_rows,
              to.row_slice(0, logit_rows));
  };
  gather(scratch_.hidden, scratch_.last_hidden);
  gather(scratch_.attention, scratch_.last_attention);
}

void LlamaModel::check(const ForwardBatch& batch, const KvPoolView& pool, const Matrix<float>& logits) const {
  const auto rows = static_cast<int64_t>(batch.tokens.size());
  const auto logit_rows = static_cast<int64_t>(batch.logit_rows.size());
  CHECK(rows > 0 && rows <= scratch_.hidden.rows);
  CHECK_EQ(batch.positions.size(), batch.tokens.size());
  CHECK_LE(logit_rows, scratch_.last_hidden.rows);
  CHECK(logits.rows == logit_rows && (logit_rows == 0 || logits.cols == config_.vocab_size));
  CHECK(pool.layout.layers == config_.layers && pool.layout.kv_heads == config_.kv_heads &&
        pool.layout.head_dim == config_.head_dim);
}

}  // namespace

KvLayout kv_layout_of(const ModelConfig& config, int32_t block_tokens, KvDtype dtype) {
  KvLayout layout;
  layout.layers = static_cast<int32_t>(config.layers);
  layout.kv_heads = static_cast<int32_t>(config.kv_heads);
  layout.head_dim = static_cast<int32_t>(config.head_dim);
  layout.block_tokens = block_tokens;
  layout.dtype = dtype;
  return layout;
}

Result<std::unique_ptr<Model>> load_model(const std::string& dir, const ModelOptions& options,
                                          Device& device) {
  if (options.dtype != DType::kF32 && options.dtype != DType::kBf16) {
    return fail(Error::kInvalidArgument,
                "weights can be f32 or bf16 in memory, not " + std::string(dtype_name(options.dtype)));
  }
  if (device.kind() != DeviceKind::kCpu) {
    return fail(Error::kUnsupported, device.name() + ": this build runs whole models on CPUs only");
  }
  ASSIGN_OR_RETURN(const ModelConfig config, load_model_config(dir));
  const int64_t positions_max = options.positions_max > 0 ? options.positions_max : config.context_max;
  if (positions_max > config.context_max) {
    return fail(Error::kInvalidArgument, dir + ": a context of " + std::to_string(positions_max) +
                                             " was asked for, but the model's is " +
                                             std::to_string(config.context_max));
  }
  ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::open(dir));
  ASSIGN_OR_RETURN(const auto stream, device.make_stream({options.threads, options.isa}));
  ASSIGN_OR_RETURN(LlamaWeights weights,
                   LlamaWeights::load(checkpoint, config, options.dtype, device, *stream));
  // Right after the load, while the pages are in memory.
  const uint64_t digest = weights_digest(checkpoint, config, options.dtype, stream->threads());
  auto rope_table =
      RopeTable::make(device, {config.head_dim, config.rope_theta, positions_max, config.rope_llama3})
          .with_context(dir);
  if (!rope_table.ok()) return rope_table.failure();
  const int64_t logit_rows = options.logit_rows_max > 0 ? options.logit_rows_max : options.rows_max;
  ASSIGN_OR_RETURN(Scratch scratch, Scratch::make(config, options.rows_max, logit_rows, device));
  return std::unique_ptr<Model>(std::make_unique<LlamaModel>(
      config, digest, positions_max, std::move(weights), std::move(*rope_table), std::move(scratch)));
}

}  // namespace penstock
