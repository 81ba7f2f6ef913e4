#include "model/weight_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace penstock {
namespace {

using NamePair = std::pair<std::string_view, std::string_view>;  // GGUF, Hugging Face

constexpr std::array<NamePair, 9> kLayerNames = {{
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
}};
constexpr std::array<NamePair, 3> kGlobalNames = {{
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
}};

template <size_t N>
std::optional<std::string_view> look_up(const std::array<NamePair, N>& names, std::string_view gguf_name) {
  for (const auto& [gguf, hf] : names) {
    if (gguf == gguf_name) return hf;
  }
  return std::nullopt;
}

}  // namespace

std::string layer_weight_name(int64_t layer, std::string_view part) {
  return "model.layers." + std::to_string(layer) + "." + std::string(part) + ".weight";
}

std::vector<WeightName> canonical_weights(const ModelConfig& config) {
  const int64_t hidden = config.hidden_size, q = config.q_size(), kv = config.kv_size();
  std::vector<WeightName> weights;
  weights.push_back({"model.embed_tokens.weight", {config.vocab_size, hidden}});
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const auto add = [&](std::string_view part, std::vector<int64_t> shape) {
      weights.push_back({layer_weight_name(layer, part), std::move(shape)});
    };
    add("input_layernorm", {hidden});
    add("self_attn.q_proj", {q, hidden});
    add("self_attn.k_proj", {kv, hidden});
    add("self_attn.v_proj", {kv, hidden});
    add("self_attn.o_proj", {hidden, q});
    add("post_attention_layernorm", {hidden});
    add("mlp.gate_proj", {config.ffn_size, hidden});
    add("mlp.up_proj", {config.ffn_size, hidden});
    add("mlp.down_proj", {hidden, config.ffn_size});
  }
  weights.push_back({"model.norm.weight", {hidden}});
  if (!config.tied_embeddings) weights.push_back({"lm_head.weight", {config.vocab_size, hidden}});
  return weights;
}

std::optional<std::string> hf_name_of_gguf(std::string_view gguf_name) {
  constexpr std::string_view kSuffix = ".weight", kBlock = "blk.";
  if (!gguf_name.ends_with(kSuffix)) return std::nullopt;
  std::string_view name = gguf_name.substr(0, gguf_name.size() - kSuffix.size());
  if (!name.starts_with(kBlock)) {
    const auto hf = look_up(kGlobalNames, name);
    return hf ? std::optional(std::string(*hf) + std::string(kSuffix)) : std::nullopt;
  }
  name.remove_prefix(kBlock.size());
  int64_t layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  name.remove_prefix(static_cast<size_t>(end - name.data()));
  if (error != std::errc() || layer < 0 || !name.starts_with('.')) return std::nullopt;
  const auto hf = look_up(kLayerNames, name.substr(1));
  return hf ? std::optional(layer_weight_name(layer, *hf)) : std::nullopt;
}

}  // namespace penstock
