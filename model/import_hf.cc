// Import from a Hugging Face folder: the tensors the model needs in one file, the text files as they are.
#include "model/checkpoint.h"
#include "model/import_source.h"
#include "model/json_fields.h"
#include "model/read_file.h"
#include "model/weight_names.h"

namespace penstock {
namespace {

constexpr int64_t kTextBytesMax = int64_t{256} << 20;
// tokenizer.json is what we serve by; the others are carried along for Transformers.
constexpr const char* kTextFiles[] = {"generation_config.json", "tokenizer.json", "tokenizer_config.json",
                                      "chat_template.jinja", "special_tokens_map.json"};

void read_row(const TensorView& tensor, DType stored, int64_t row, std::span<float> out) {
  const auto first = static_cast<size_t>(row) * out.size();
  const auto widen = [&](const auto* values) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = to_float(values[first + i]);
  };
  const void* data = tensor.data.data();
  if (stored == DType::kF32) {
    widen(static_cast<const float*>(data));
  } else if (stored == DType::kBf16) {
    widen(static_cast<const Bf16*>(data));
  } else {
    widen(static_cast<const F16*>(data));
  }
}

// The same config.json, with the new dtype under whichever name it used.
Result<std::string> config_with_dtype(const std::string& dir, DType dtype) {
  ASSIGN_OR_RETURN(const std::string text, read_file(dir + "/config.json", kTextBytesMax));
  ASSIGN_OR_RETURN(auto json, parse_json_object(text, dir + "/config.json"));
  json[json.contains("dtype") ? "dtype" : "torch_dtype"] = torch_dtype_name(dtype);
  return json.dump(2);
}

}  // namespace

Result<ImportSource> open_hf_source(const std::string& dir, DType dtype) {
  ASSIGN_OR_RETURN(const ModelConfig config, load_model_config(dir));
  ASSIGN_OR_RETURN(Checkpoint opened, Checkpoint::open(dir));
  const auto checkpoint = std::make_shared<const Checkpoint>(std::move(opened));
  ImportSource source;
  source.files = checkpoint;
  source.architecture = config.architecture;
  for (const WeightName& weight : canonical_weights(config)) {
    ASSIGN_OR_RETURN(const TensorView tensor, checkpoint->find(weight.name, weight.shape));
    ASSIGN_OR_RETURN(const DType stored, tensor.dtype());
    source.tensors.push_back({weight.name, weight.shape, [tensor, stored](int64_t row, std::span<float> out) {
                                read_row(tensor, stored, row, out);
                              }});
  }
  ASSIGN_OR_RETURN(std::string config_json, config_with_dtype(dir, dtype));
  source.texts.emplace_back("config.json", std::move(config_json));
  for (const char* name : kTextFiles) {
    auto text = read_file(dir + "/" + name, kTextBytesMax);
    if (text.ok()) {
      source.texts.emplace_back(name, std::move(*text));
    } else if (text.code() != Error::kNotFound) {
      return text.failure();
    } else if (std::string_view(name) == "tokenizer.json") {
      return fail(Error::kNotFound, dir +
                                        ": tokenizer.json is missing; `AutoTokenizer.from_pretrained(...)."
                                        "save_pretrained(...)` of Transformers makes one");
    }
  }
  return source;
}

}  // namespace penstock
