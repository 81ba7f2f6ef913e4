#include "model/llama_weights.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "kernels/thread_pool.h"
#include "model/weight_names.h"

namespace penstock {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kRowsPerJob = 512;  // about a MB at usual widths: enough jobs to share, few enough to count

// Gives out offsets first, pointers once the buffer is there: the layout is walked twice.
class Arena {
 public:
  explicit Arena(void* base) : base_(static_cast<std::byte*>(base)) {}
  void* take(int64_t bytes) {
    void* place = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return place;
  }
  int64_t used() const { return used_; }

 private:
  std::byte* base_;
  int64_t used_ = 0;
};

// Places every tensor in `arena` and sets the views; with an empty arena it only measures.
void lay_out(const ModelConfig& config, DType dtype, Isa isa, Arena& arena, LlamaWeights& weights) {
  const int64_t hidden = config.hidden_size;
  const auto packed = [&](int64_t n, int64_t k) {
    void* data = arena.take(PackedMatrix::packed_bytes(n, k, dtype, isa));
    return data == nullptr ? PackedMatrix() : PackedMatrix(data, n, k, dtype, isa);
  };
  const auto norm = [&] { return WeightVector{arena.take(hidden * 4), DType::kF32, hidden}; };
  weights.embedding = {arena.take(config.vocab_size * hidden * dtype_bytes(dtype)), dtype, config.vocab_size,
                       hidden, hidden};
  weights.layers.resize(static_cast<size_t>(config.layers));
  for (LlamaLayerWeights& layer : weights.layers) {
    layer.input_norm = norm();
    layer.qkv = packed(config.qkv_size(), hidden);
    layer.output = packed(hidden, config.q_size());
    layer.post_attn_norm = norm();
    layer.gate_up = packed(2 * config.ffn_size, hidden);
    layer.down = packed(hidden, config.ffn_size);
  }
  weights.final_norm = norm();
  weights.lm_head = packed(config.vocab_size, hidden);
}

float load_float(const void* data, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<const float*>(data)[i];
    case DType::kBf16:
      return to_float(static_cast<const Bf16*>(data)[i]);
    case DType::kF16:
      return to_float(static_cast<const F16*>(data)[i]);
    case DType::kI32:
      break;
  }
  return 0;
}

void copy_norm(const WeightMatrix& source, DType dtype, const WeightVector& to) {
  auto* out = static_cast<float*>(const_cast<void*>(to.data));
  for (int64_t i = 0; i < to.size; ++i) {
    const float value = load_float(source.data, source.dtype, i);
    out[i] = dtype == DType::kBf16 ? to_float(to_bf16(value)) : value;
  }
}

void copy_rows(const WeightMatrix& source, int64_t first_row, const WeightMatrix& to) {
  auto* out =
      static_cast<std::byte*>(const_cast<void*>(to.data)) + first_row * to.stride * dtype_bytes(to.dtype);
  const int64_t count = source.rows * source.cols;
  if (source.dtype == to.dtype) {
    std::copy_n(static_cast<const std::byte*>(source.data), count * dtype_bytes(to.dtype), out);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const float value = load_float(source.data, source.dtype, i);
    if (to.dtype == DType::kF32) {
      reinterpret_cast<float*>(out)[i] = value;
    } else {
      reinterpret_cast<Bf16*>(out)[i] = to_bf16(value);
    }
  }
}

WeightMatrix rows_of(const WeightMatrix& matrix, int64_t first, int64_t count) {
  const auto* data =
      static_cast<const std::byte*>(matrix.data) + first * matrix.stride * dtype_bytes(matrix.dtype);
  return {data, matrix.dtype, count, matrix.cols, matrix.stride};
}

// Collects the work of a load as independent pieces, then runs them on the stream's threads.
class Loader {
 public:
  Loader(const Checkpoint& checkpoint, DType dtype) : checkpoint_(checkpoint), dtype_(dtype) {}

  Status pack(const std::string& name, int64_t rows, int64_t first_row, PackedMatrix& to) {
    ASSIGN_OR_RETURN(const WeightMatrix source, find(name, rows, to.k()));
    for (int64_t row = 0; row < rows; row += kRowsPerJob) {
      const int64_t count = std::min(kRowsPerJob, rows - row);
      jobs_.push_back([=, &to] { to.pack_rows(first_row + row, rows_of(source, row, count)); });
    }
    return {};
  }
  Status copy_matrix(const std::string& name, const WeightMatrix& to) {
    ASSIGN_OR_RETURN(const WeightMatrix source, find(name, to.rows, to.cols));
    for (int64_t row = 0; row < to.rows; row += kRowsPerJob) {
      const int64_t count = std::min(kRowsPerJob, to.rows - row);
      jobs_.push_back([=] { copy_rows(rows_of(source, row, count), row, to); });
    }
    return {};
  }
  Status copy_vector(const std::string& name, const WeightVector& to) {
    ASSIGN_OR_RETURN(const TensorView tensor, checkpoint_.find(name, {to.size}));
    ASSIGN_OR_RETURN(const DType stored, tensor.dtype());
    const WeightMatrix source{tensor.data.data(), stored, 1, to.size, to.size};
    jobs_.push_back([source, to, dtype = dtype_] { copy_norm(source, dtype, to); });
    return {};
  }
  void run(ThreadPool& threads) {
    threads.parallel_for(static_cast<int64_t>(jobs_.size()),
                         [&](int64_t job) { jobs_[static_cast<size_t>(job)](); });
  }

 private:
  Result<WeightMatrix> find(const std::string& name, int64_t rows, int64_t cols) const {
    ASSIGN_OR_RETURN(const TensorView tensor, checkpoint_.find(name, {rows, cols}));
    ASSIGN_OR_RETURN(const DType stored, tensor.dtype());
    return WeightMatrix{tensor.data.data(), stored, rows, cols, cols};
  }

  const Checkpoint& checkpoint_;
  DType dtype_;
  std::vector<std::function<void()>> jobs_;
};

Status add_layer(Loader& loader, const ModelConfig& config, int64_t index, LlamaLayerWeights& layer) {
  const auto name = [index](std::string_view part) { return layer_weight_name(index, part); };
  const int64_t q = config.q_size(), kv = config.kv_size(), ffn = config.ffn_size;
  RETURN_IF_ERROR(loader.copy_vector(name("input_layernorm"), layer.input_norm));
  RETURN_IF_ERROR(loader.pack(name("self_attn.q_proj"), q, 0, layer.qkv));
  RETURN_IF_ERROR(loader.pack(name("self_attn.k_proj"), kv, q, layer.qkv));
  RETURN_IF_ERROR(loader.pack(name("self_attn.v_proj"), kv, q + kv, layer.qkv));
  RETURN_IF_ERROR(loader.pack(name("self_attn.o_proj"), config.hidden_size, 0, layer.output));
  RETURN_IF_ERROR(loader.copy_vector(name("post_attention_layernorm"), layer.post_attn_norm));
  RETURN_IF_ERROR(loader.pack(name("mlp.gate_proj"), ffn, 0, layer.gate_up));
  RETURN_IF_ERROR(loader.pack(name("mlp.up_proj"), ffn, ffn, layer.gate_up));
  return loader.pack(name("mlp.down_proj"), config.hidden_size, 0, layer.down);
}

}  // namespace

Result<LlamaWeights> LlamaWeights::load(const Checkpoint& checkpoint, const ModelConfig& config, DType dtype,
                                        Device& device, Stream& stream) {
  CHECK(dtype == DType::kF32 || dtype == DType::kBf16);
  CHECK(device.kind() == DeviceKind::kCpu);
  // Every tensor is looked for before memory is taken by what config.json claims.
  for (const WeightName& weight : canonical_weights(config)) {
    ASSIGN_OR_RETURN([[maybe_unused]] const TensorView found, checkpoint.find(weight.name, weight.shape));
  }
  LlamaWeights weights;
  weights.dtype = dtype;
  Arena measure(nullptr);
  lay_out(config, dtype, stream.isa(), measure, weights);
  auto buffer = device.allocate(measure.used());
  if (!buffer.ok()) return std::move(buffer).with_context("weights").failure();
  weights.buffer = std::move(*buffer);
  Arena arena(weights.buffer.data());
  lay_out(config, dtype, stream.isa(), arena, weights);

  Loader loader(checkpoint, dtype);
  const std::string head = config.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  RETURN_IF_ERROR(loader.pack(head, config.vocab_size, 0, weights.lm_head));
  RETURN_IF_ERROR(loader.copy_matrix("model.embed_tokens.weight", weights.embedding));
  for (int64_t i = 0; i < config.layers; ++i) {
    RETURN_IF_ERROR(add_layer(loader, config, i, weights.layers[static_cast<size_t>(i)]));
  }
  RETURN_IF_ERROR(loader.copy_vector("model.norm.weight", weights.final_norm));
  loader.run(stream.threads());
  return weights;
}

}  // namespace penstock
