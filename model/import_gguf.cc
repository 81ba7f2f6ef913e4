// Import from a GGUF file: weights expanded, rotary rows put in Hugging Face's order, config and tokenizer
// rebuilt from the metadata.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numbers>

#include "model/config.h"
#include "model/gguf.h"
#include "model/import_source.h"
#include "model/import_tokenizer.h"
#include "model/weight_names.h"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kRopeFactors = "rope_freqs.weight";

// The shortest decimal that is this f32: metadata stores 1e-5 as f32, config.json says 1e-05.
double shortest(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), static_cast<float>(value)).ptr;
  double result = value;
  std::from_chars(text, end, result);
  return result;
}

// Where llama3 scaling is meant, a GGUF carries its effect: the number each frequency is divided by.
// Expected for the parameters with which every published Llama 3.x model was trained.
std::vector<double> llama3_factors(int64_t head_dim, double theta, const Llama3RopeScaling& scaling) {
  std::vector<double> factors;
  const auto context = static_cast<double>(scaling.original_context);
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    const double wavelength =
        2 * std::numbers::pi * std::pow(theta, 2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    if (wavelength < context / scaling.high_freq_factor) {
      factors.push_back(1);
    } else if (wavelength > context / scaling.low_freq_factor) {
      factors.push_back(scaling.factor);
    } else {
      const double smooth = (context / wavelength - scaling.low_freq_factor) /
                            (scaling.high_freq_factor - scaling.low_freq_factor);
      factors.push_back(1 / ((1 - smooth) / scaling.factor + smooth));
    }
  }
  return factors;
}

Result<Json> rope_scaling_of(const GgufFile& file, int64_t head_dim, double theta) {
  const GgufTensor* tensor = file.find(kRopeFactors);
  ASSIGN_OR_RETURN(const auto type, file.find_string("llama.rope.scaling.type"));
  if (type && *type != "none") {
    return fail(Error::kUnsupported,
                file.path() + ": llama.rope.scaling.type " + std::string(*type) + " is not supported");
  }
  if (tensor == nullptr) return Json();
  std::vector<float> stored(static_cast<size_t>(tensor->elements()));
  dequantize(tensor->type, tensor->data, stored);
  Llama3RopeScaling scaling;  // low 1, high 4, original context 8192
  scaling.factor = stored.empty() ? 1 : *std::max_element(stored.begin(), stored.end());
  const std::vector<double> expected = llama3_factors(head_dim, theta, scaling);
  bool same = expected.size() == stored.size();
  for (size_t i = 0; same && i < stored.size(); ++i) {
    same = std::abs(stored[i] - expected[i]) <= 1e-3 * expected[i];
  }
  if (!same) {
    return fail(Error::kUnsupported, file.path() + ": tensor \"" + std::string(kRopeFactors) +
                                         "\" at offset " + std::to_string(tensor->offset) +
                                         " is not the rotary scaling of a Llama 3 model");
  }
  return Json{{"factor", scaling.factor},
              {"high_freq_factor", scaling.high_freq_factor},
              {"low_freq_factor", scaling.low_freq_factor},
              {"original_max_position_embeddings", scaling.original_context},
              {"rope_type", "llama3"}};
}

Status put_id(const GgufFile& file, const char* key, const char* name, Json& json) {
  ASSIGN_OR_RETURN(const auto id, file.find_integer(key));
  if (id) json[name] = *id;
  return {};
}

Status put_special_ids(const GgufFile& file, Json& json) {
  RETURN_IF_ERROR(put_id(file, "tokenizer.ggml.bos_token_id", "bos_token_id", json));
  RETURN_IF_ERROR(put_id(file, "tokenizer.ggml.eos_token_id", "eos_token_id", json));
  return put_id(file, "tokenizer.ggml.padding_token_id", "pad_token_id", json);
}

Result<Json> config_json(const GgufFile& file, DType dtype) {
  ASSIGN_OR_RETURN(const std::string_view architecture, file.string("general.architecture"));
  if (architecture != "llama") {
    return fail(Error::kUnsupported, file.path() + ": the architecture " + std::string(architecture) +
                                         " is not supported; this build imports llama");
  }
  ASSIGN_OR_RETURN(const int64_t hidden, file.integer("llama.embedding_length"));
  ASSIGN_OR_RETURN(const int64_t heads, file.integer("llama.attention.head_count"));
  ASSIGN_OR_RETURN(const auto kv_heads, file.find_integer("llama.attention.head_count_kv"));
  ASSIGN_OR_RETURN(const auto key_length, file.find_integer("llama.attention.key_length"));
  ASSIGN_OR_RETURN(const int64_t ffn, file.integer("llama.feed_forward_length"));
  ASSIGN_OR_RETURN(const int64_t context, file.integer("llama.context_length"));
  ASSIGN_OR_RETURN(const int64_t layers, file.integer("llama.block_count"));
  ASSIGN_OR_RETURN(const double eps, file.number("llama.attention.layer_norm_rms_epsilon"));
  ASSIGN_OR_RETURN(const double theta,
                   file.has("llama.rope.freq_base") ? file.number("llama.rope.freq_base") : Result(10000.0));
  if (heads < 1 || hidden < heads) {
    return fail(Error::kCorrupt, file.path() + ": llama.attention.head_count " + std::to_string(heads) +
                                     " does not suit llama.embedding_length " + std::to_string(hidden));
  }
  const GgufTensor* embedding = file.find("token_embd.weight");
  if (embedding == nullptr) {
    return fail(Error::kCorrupt, file.path() + ": tensor \"token_embd.weight\" is missing");
  }
  const int64_t head_dim = key_length.value_or(hidden / heads);
  ASSIGN_OR_RETURN(const auto rotary, file.find_integer("llama.rope.dimension_count"));
  if (rotary.value_or(head_dim) != head_dim) {
    return fail(Error::kUnsupported, file.path() + ": llama.rope.dimension_count " + std::to_string(*rotary) +
                                         ": rotating a part of each head is not supported");
  }
  ASSIGN_OR_RETURN(const Json rope_scaling, rope_scaling_of(file, head_dim, theta));
  Json json = {{"architectures", {"LlamaForCausalLM"}},
               {"model_type", "llama"},
               {"attention_bias", false},
               {"mlp_bias", false}};
  RETURN_IF_ERROR(put_special_ids(file, json));
  json.update(Json{{"hidden_act", "silu"},
                   {"hidden_size", hidden},
                   {"head_dim", head_dim},
                   {"initializer_range", 0.02},
                   {"intermediate_size", ffn},
                   {"max_position_embeddings", context},
                   {"num_attention_heads", heads},
                   {"num_hidden_layers", layers},
                   {"num_key_value_heads", kv_heads.value_or(heads)},
                   {"rms_norm_eps", shortest(eps)},
                   {"rope_scaling", rope_scaling},
                   {"rope_theta", shortest(theta)},
                   {"tie_word_embeddings", file.find("output.weight") == nullptr},
                   {"torch_dtype", torch_dtype_name(dtype)},
                   {"use_cache", true},
                   {"vocab_size", embedding->shape.front()}});
  return json;
}

// Ids of end-of-sequence and end-of-turn, where the GGUF names both.
Result<std::string> generation_json(const GgufFile& file) {
  Json json = Json::object();
  RETURN_IF_ERROR(put_special_ids(file, json));
  ASSIGN_OR_RETURN(const auto eot, file.find_integer("tokenizer.ggml.eot_token_id"));
  if (eot && json.contains("eos_token_id") && json["eos_token_id"] != *eot) {
    json["eos_token_id"] = Json::array({json["eos_token_id"], *eot});
  }
  return json.dump(2);
}

// GGUF stores the rows of a head for rotary pairs side by side (0, 1), (2, 3) ...; Hugging Face pairs row i
// with row i + head_dim / 2. Gives the GGUF row of a Hugging Face row.
int64_t interleaved_row(int64_t row, int64_t head_dim) {
  const int64_t head = row / head_dim, within = row % head_dim, half = head_dim / 2;
  return head * head_dim + within % half * 2 + within / half;
}

ImportTensor import_tensor(const GgufTensor& tensor, std::string hf_name, int64_t head_dim) {
  const GgufTypeInfo& info = *find_gguf_type(static_cast<uint32_t>(tensor.type));
  const int64_t row_bytes = tensor.shape.back() / info.block_elements * info.block_bytes;
  const bool rotary = tensor.name.ends_with(".attn_q.weight") || tensor.name.ends_with(".attn_k.weight");
  const auto read_row = [data = tensor.data, type = tensor.type, row_bytes, rotary, head_dim](
                            int64_t row, std::span<float> out) {
    const int64_t from = rotary ? interleaved_row(row, head_dim) : row;
    dequantize(type, data.subspan(static_cast<size_t>(from * row_bytes), static_cast<size_t>(row_bytes)),
               out);
  };
  return {std::move(hf_name), tensor.shape, read_row};
}

// The file's tensors in its order: every one the model needs, and no other.
Status add_tensors(const GgufFile& file, const ModelConfig& config, ImportSource& source) {
  std::map<std::string, std::vector<int64_t>> needed;
  for (WeightName& weight : canonical_weights(config)) needed.emplace(weight.name, std::move(weight.shape));
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.name == kRopeFactors) continue;  // now in config.json
    const std::string where =
        file.path() + ": tensor \"" + tensor.name + "\" at offset " + std::to_string(tensor.offset);
    auto name = hf_name_of_gguf(tensor.name);
    const auto found = name ? needed.find(*name) : needed.end();
    if (found == needed.end()) {
      return fail(Error::kUnsupported, where + " has no place in a Llama model of this shape");
    }
    if (found->second != tensor.shape) {
      return fail(Error::kCorrupt, where + ": its shape does not suit the metadata");
    }
    needed.erase(found);
    source.tensors.push_back(import_tensor(tensor, *std::move(name), config.head_dim));
  }
  if (!needed.empty()) {
    return fail(Error::kCorrupt, file.path() + ": no tensor for \"" + needed.begin()->first + "\"");
  }
  return {};
}

}  // namespace

Result<ImportSource> open_gguf_source(const std::string& path, DType dtype) {
  ASSIGN_OR_RETURN(GgufFile opened, GgufFile::open(path));
  const auto file = std::make_shared<const GgufFile>(std::move(opened));
  ASSIGN_OR_RETURN(const Json config, config_json(*file, dtype));
  ASSIGN_OR_RETURN(std::string generation, generation_json(*file));
  // Read back as any model's would be: what is unsupported or out of range is found before anything is
  // written.
  ASSIGN_OR_RETURN(const ModelConfig parsed, parse_model_config(config.dump(), generation, path));
  ImportSource source;
  source.files = file;
  source.architecture = parsed.architecture;
  RETURN_IF_ERROR(add_tensors(*file, parsed, source));
  ASSIGN_OR_RETURN(std::string tokenizer, tokenizer_json_from_gguf(*file));
  ASSIGN_OR_RETURN(std::string tokenizer_config, tokenizer_config_json_from_gguf(*file, parsed.context_max));
  source.texts.emplace_back("config.json", config.dump(2));
  source.texts.emplace_back("generation_config.json", std::move(generation));
  source.texts.emplace_back("tokenizer.json", std::move(tokenizer));
  source.texts.emplace_back("tokenizer_config.json", std::move(tokenizer_config));
  return source;
}

}  // namespace penstock
