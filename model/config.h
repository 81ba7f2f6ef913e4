// ModelConfig: the shape and the constants of a model, from a Hugging Face folder's config.json.
//
// A plain value; parsing is pure. Both styles of config.json are read: the classic one (`rope_theta`,
// `rope_scaling`, `torch_dtype`) and the one Transformers 5 writes (`rope_parameters`, `dtype`).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kernels/dtype.h"
#include "kernels/rope.h"

namespace penstock {

struct ModelConfig {
  std::string architecture;  // "LlamaForCausalLM"
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides heads
  int64_t head_dim = 0;  // even; heads * head_dim may differ from hidden_size
  int64_t ffn_size = 0;
  int64_t context_max = 0;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  std::optional<Llama3RopeScaling> rope_llama3;
  bool tied_embeddings = false;   // the embedding is also the output matrix, and lm_head is not stored
  std::optional<TokenId> bos_id;  // generation_config.json first, then config.json
  std::vector<TokenId> eos_ids;   // of both files, without repeats; empty: only a length limit ends an answer
  DType stored_dtype = DType::kF32;  // what config.json says the weights are; the tensors themselves decide

  int64_t q_size() const { return heads * head_dim; }
  int64_t kv_size() const { return kv_heads * head_dim; }
  int64_t qkv_size() const { return q_size() + 2 * kv_size(); }
};

// `generation_json` may be empty. `where` names the folder or file in errors. A well-formed file that asks
// for something this build cannot do (another architecture, biases, other rotary scalings) is kUnsupported,
// with what is supported.
[[nodiscard]] Result<ModelConfig> parse_model_config(std::string_view config_json,
                                                     std::string_view generation_json,
                                                     const std::string& where);

// DIR/config.json and, if present, DIR/generation_config.json.
[[nodiscard]] Result<ModelConfig> load_model_config(const std::string& dir);

}  // namespace penstock
