// The canonical tensors of a model: Hugging Face names, unfused, with their shapes; and what GGUF calls them.
//
// Pure functions. Loading, importing and (later) publishing weights all speak these names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace penstock {

struct WeightName {
  std::string name;            // "model.layers.3.self_attn.q_proj.weight"
  std::vector<int64_t> shape;  // [out, in], or [size] for a norm
};

// Every tensor the model needs, in the order of the forward pass.
[[nodiscard]] std::vector<WeightName> canonical_weights(const ModelConfig& config);

// Names of one layer's tensors.
[[nodiscard]] std::string layer_weight_name(int64_t layer, std::string_view part);

// "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight"; nothing for a tensor without
// counterpart.
[[nodiscard]] std::optional<std::string> hf_name_of_gguf(std::string_view gguf_name);

}  // namespace penstock
