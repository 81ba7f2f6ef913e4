#include "model/config.h"

#include <algorithm>
#include <cmath>

#include "model/json_fields.h"
#include "model/read_file.h"

namespace penstock {
namespace {

constexpr int64_t kConfigBytesMax = 1 << 20;
constexpr std::string_view kSupported = "LlamaForCausalLM";

Failure unsupported(const std::string& what) { return fail(Error::kUnsupported, what); }

Result<std::string> read_architecture(const JsonFields& fields) {
  const auto* list = fields.find("architectures");
  std::string name;
  if (list != nullptr) {
    if (!list->is_array() || list->empty() || !list->front().is_string()) {
      return fields.wrong("architectures", "a list of names");
    }
    name = list->front().get<std::string>();
  } else {
    ASSIGN_OR_RETURN(const std::string type, fields.string("model_type"));
    name = type == "llama" ? std::string(kSupported) : "model_type " + type;
  }
  if (name != kSupported) {
    return unsupported(fields.where() + ": the architecture " + name + " is not supported; this build runs " +
                       std::string(kSupported));
  }
  return name;
}

Status read_shape(const JsonFields& fields, ModelConfig& config) {
  // The limits only keep products of sizes far from overflow; real models stay well below.
  ASSIGN_OR_RETURN(config.vocab_size, fields.integer("vocab_size", 1, 1 << 24));
  ASSIGN_OR_RETURN(config.hidden_size, fields.integer("hidden_size", 1, 1 << 20));
  ASSIGN_OR_RETURN(config.layers, fields.integer("num_hidden_layers", 1, 4096));
  ASSIGN_OR_RETURN(config.heads, fields.integer("num_attention_heads", 1, 4096));
  ASSIGN_OR_RETURN(config.kv_heads, fields.integer("num_key_value_heads", 1, 4096, config.heads));
  ASSIGN_OR_RETURN(config.head_dim, fields.integer("head_dim", 1, 4096,
                                                   std::max<int64_t>(1, config.hidden_size / config.heads)));
  ASSIGN_OR_RETURN(config.ffn_size, fields.integer("intermediate_size", 1, 1 << 24));
  ASSIGN_OR_RETURN(config.context_max, fields.integer("max_position_embeddings", 1, INT32_MAX, 2048));
  if (config.heads % config.kv_heads != 0) {
    return fail(Error::kCorrupt, fields.where() + ": num_attention_heads (" + std::to_string(config.heads) +
                                     ") is not a multiple of num_key_value_heads (" +
                                     std::to_string(config.kv_heads) + ")");
  }
  if (config.head_dim % 16 != 0 || config.head_dim > 256) {
    return unsupported(fields.where() + ": heads of " + std::to_string(config.head_dim) +
                       " dimensions are not supported; this build handles multiples of 16 up to 256");
  }
  return {};
}

Status read_llama3_scaling(const JsonFields& scaling, ModelConfig& config) {
  Llama3RopeScaling result;
  ASSIGN_OR_RETURN(result.factor, scaling.number("factor"));
  ASSIGN_OR_RETURN(result.low_freq_factor, scaling.number("low_freq_factor"));
  ASSIGN_OR_RETURN(result.high_freq_factor, scaling.number("high_freq_factor"));
  ASSIGN_OR_RETURN(result.original_context,
                   scaling.integer("original_max_position_embeddings", 1, INT32_MAX));
  config.rope_llama3 = result;
  return {};
}

// `rope_parameters` of Transformers 5, else `rope_scaling`; each may be absent or null. The first also
// carries theta.
Status read_rope(const JsonFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.rope_theta, fields.number("rope_theta", 10000.0));
  const char* key = fields.find("rope_parameters") != nullptr ? "rope_parameters" : "rope_scaling";
  const auto* object = fields.find(key);
  if (object != nullptr) {
    if (!object->is_object()) return fields.wrong(key, "an object");
    const JsonFields scaling(*object, fields.where() + ": " + key);
    ASSIGN_OR_RETURN(config.rope_theta, scaling.number("rope_theta", config.rope_theta));
    ASSIGN_OR_RETURN(const std::string old_type, scaling.string("type", "default"));
    ASSIGN_OR_RETURN(const std::string type, scaling.string("rope_type", old_type));
    if (type == "llama3") {
      RETURN_IF_ERROR(read_llama3_scaling(scaling, config));
    } else if (type != "default") {
      return unsupported(fields.where() + ": rotary scaling \"" + type +
                         "\" is not supported; this build knows default and llama3");
    }
  }
  ASSIGN_OR_RETURN(const double partial, fields.number("partial_rotary_factor", 1.0));
  if (partial != 1.0) return unsupported(fields.where() + ": partial_rotary_factor is not supported");
  if (!(config.rope_theta > 0) || !std::isfinite(config.rope_theta)) {
    return fail(Error::kCorrupt, fields.where() + ": rope_theta must be positive");
  }
  return {};
}

Status refuse_variants(const JsonFields& fields) {
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    ASSIGN_OR_RETURN(const bool set, fields.boolean(key, false));
    if (set) return unsupported(fields.where() + ": " + key + " is not supported");
  }
  ASSIGN_OR_RETURN(const std::string activation, fields.string("hidden_act", "silu"));
  if (activation != "silu") {
    return unsupported(fields.where() + ": hidden_act \"" + activation + "\" is not supported, only silu");
  }
  if (fields.find("quantization_config") != nullptr) {
    return unsupported(fields.where() + ": quantized Hugging Face weights are not supported; use the " +
                       "unquantized model, or import a GGUF");
  }
  return {};
}

Result<DType> read_stored_dtype(const JsonFields& fields) {
  const char* key = fields.find("dtype") != nullptr ? "dtype" : "torch_dtype";
  ASSIGN_OR_RETURN(const std::string name, fields.string(key, "float32"));
  if (name == "float32") return DType::kF32;
  if (name == "bfloat16") return DType::kBf16;
  if (name == "float16") return DType::kF16;
  return unsupported(fields.where() + ": " + key + " " + name +
                     " is not supported; float32, bfloat16 and float16 are");
}

// An id, a list of ids, or nothing.
Status append_ids(const JsonFields& fields, const char* key, int64_t vocab_size, std::vector<TokenId>& ids) {
  const auto* field = fields.find(key);
  if (field == nullptr) return {};
  const auto add = [&](const nlohmann::ordered_json& value) {
    if (!value.is_number_integer() || value < 0 || value >= vocab_size) return false;
    const TokenId id = value.get<TokenId>();
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
    return true;
  };
  bool good = true;
  if (field->is_array()) {
    for (const auto& value : *field) good = good && add(value);
  } else {
    good = add(*field);
  }
  if (!good) return fields.wrong(key, "a token id below vocab_size, or a list of them");
  return {};
}

Status read_special_ids(const JsonFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(append_ids(fields, "eos_token_id", config.vocab_size, config.eos_ids));
  std::vector<TokenId> bos;
  RETURN_IF_ERROR(append_ids(fields, "bos_token_id", config.vocab_size, bos));
  if (!config.bos_id && !bos.empty()) config.bos_id = bos.front();
  return {};
}

}  // namespace

Result<ModelConfig> parse_model_config(std::string_view config_json, std::string_view generation_json,
                                       const std::string& where) {
  const std::string config_where = where + "/config.json";
  ASSIGN_OR_RETURN(const auto json, parse_json_object(config_json, config_where));
  const JsonFields fields(json, config_where);
  ModelConfig config;
  ASSIGN_OR_RETURN(config.architecture, read_architecture(fields));
  RETURN_IF_ERROR(read_shape(fields, config));
  RETURN_IF_ERROR(refuse_variants(fields));
  RETURN_IF_ERROR(read_rope(fields, config));
  ASSIGN_OR_RETURN(config.rms_norm_eps, fields.number("rms_norm_eps", 1e-6));
  ASSIGN_OR_RETURN(config.tied_embeddings, fields.boolean("tie_word_embeddings", false));
  ASSIGN_OR_RETURN(config.stored_dtype, read_stored_dtype(fields));
  if (!generation_json.empty()) {
    const std::string generation_where = where + "/generation_config.json";
    ASSIGN_OR_RETURN(const auto generation, parse_json_object(generation_json, generation_where));
    RETURN_IF_ERROR(read_special_ids(JsonFields(generation, generation_where), config));
  }
  RETURN_IF_ERROR(read_special_ids(fields, config));
  return config;
}

Result<ModelConfig> load_model_config(const std::string& dir) {
  auto config_json = read_file(dir + "/config.json", kConfigBytesMax);
  if (!config_json.ok() && config_json.code() == Error::kNotFound) {
    return fail(Error::kNotFound, dir +
                                      ": no model here (config.json is missing); `penstock import` makes a "
                                      "model folder from a GGUF file");
  }
  RETURN_IF_ERROR(config_json.ok() ? Status() : Status(config_json.failure()));
  auto generation_json = read_file(dir + "/generation_config.json", kConfigBytesMax);
  if (!generation_json.ok() && generation_json.code() != Error::kNotFound) return generation_json.failure();
  return parse_model_config(*config_json, generation_json.ok() ? *generation_json : std::string(), dir);
}

}  // namespace penstock
