#include "text/model_text.h"

#include <simdjson.h>

#include "text/tokenizer_json.h"

namespace penstock {
namespace {

using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::string_view kSpecialTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                               "pad_token", "cls_token", "mask_token"};

// "text" or {"content": "text", ...}, as different versions write it.
std::optional<std::string> token_content(const element& value) {
  std::string_view content;
  if (value.get(content) == simdjson::SUCCESS) return std::string(content);
  if (value["content"].get(content) == simdjson::SUCCESS) return std::string(content);
  return std::nullopt;
}

jinja::Dict special_tokens(const object& config) {
  jinja::Dict tokens;
  for (const std::string_view name : kSpecialTokens) {
    element value;
    if (config[name].get(value) != simdjson::SUCCESS) continue;
    const auto content = token_content(value);
    if (!content.has_value()) continue;
    tokens.set(std::string(name), jinja::Value::string(*content, jinja::Origin::kTemplate));
  }
  return tokens;
}

// A string, or [{"name": ..., "template": ...}, ...], of which "default" counts.
std::optional<std::string> template_in(const object& config) {
  element value;
  std::string_view source, name;
  if (config["chat_template"].get(value) != simdjson::SUCCESS) return std::nullopt;
  if (value.get(source) == simdjson::SUCCESS) return std::string(source);
  simdjson::dom::array list;
  if (value.get(list) != simdjson::SUCCESS) return std::nullopt;
  for (const element& entry : list) {
    const bool is_default = entry["name"].get(name) == simdjson::SUCCESS && name == "default";
    if (is_default && entry["template"].get(source) == simdjson::SUCCESS) return std::string(source);
  }
  return std::nullopt;
}

}  // namespace

Result<Tokenizer> load_tokenizer(const std::string& model_dir) {
  return Tokenizer::from_file(model_dir + "/tokenizer.json");
}

Result<ModelChat> load_chat_template(const std::string& model_dir) {
  const std::string config_path = model_dir + "/tokenizer_config.json";
  const std::string template_path = model_dir + "/chat_template.jinja";
  std::optional<std::string> source;
  jinja::Dict tokens;
  auto from_file = read_text_file(template_path);
  if (!from_file.ok() && from_file.code() != Error::kNotFound) return from_file.failure();
  auto config_text = read_text_file(config_path);
  if (!config_text.ok() && !(config_text.code() == Error::kNotFound && from_file.ok())) {
    return config_text.failure();
  }
  if (config_text.ok()) {
    simdjson::dom::parser parser;
    object config;
    if (const auto error = parser.parse(*config_text).get(config); error != simdjson::SUCCESS) {
      return fail(Error::kCorrupt, config_path + ": not a JSON object: " + simdjson::error_message(error));
    }
    tokens = special_tokens(config);
    source = template_in(config);
  }
  if (from_file.ok()) source = std::move(*from_file);
  if (!source.has_value()) {
    return fail(Error::kNotFound, config_path + ": no chat_template, and no " + template_path +
                                      "; the model can complete text but not chat");
  }
  ASSIGN_OR_RETURN(ChatTemplate parsed,
                   ChatTemplate::parse(*source, from_file.ok() ? template_path : config_path));
  return ModelChat{std::move(parsed), std::move(tokens)};
}

Result<RenderedText> render_chat(const ModelChat& chat, const jinja::Dict& variables,
                                 const RenderOptions& options) {
  jinja::Dict all = variables;
  for (const auto& [name, token] : chat.special_tokens.entries()) {
    if (variables.find(name) == nullptr) all.set(name, token);
  }
  return chat.chat_template.render(jinja::Value(std::move(all)), options);
}

std::tm system_local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

}  // namespace penstock
