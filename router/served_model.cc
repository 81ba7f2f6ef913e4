#include "router/served_model.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace penstock::router {
namespace {

using Json = nlohmann::json;

Result<Json> read_json(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(Error::kNotFound, path + ": cannot be read");
  std::ostringstream text;
  text << file.rdbuf();
  Json json = Json::parse(text.str(), nullptr, false);
  if (!json.is_object()) return fail(Error::kCorrupt, path + ": is no JSON object");
  return json;
}

// eos_token_id is a number or a list of numbers.
void add_ids(const Json& json, std::vector<TokenId>& ids) {
  const auto found = json.find("eos_token_id");
  if (found == json.end()) return;
  const auto add = [&](const Json& id) {
    if (id.is_number_integer()) ids.push_back(id.get<TokenId>());
  };
  if (found->is_array()) {
    for (const Json& id : *found) add(id);
  } else {
    add(*found);
  }
}

// eos_token is a string or {"content": string}.
void add_named(const Json& json, const Tokenizer& tokenizer, std::vector<TokenId>& ids) {
  const auto found = json.find("eos_token");
  if (found == json.end()) return;
  const Json& text = found->is_object() && found->contains("content") ? (*found)["content"] : *found;
  if (!text.is_string()) return;
  if (const auto id = tokenizer.find_token(text.get<std::string>())) ids.push_back(*id);
}

jinja::Value request_text(const std::string& text) {
  return jinja::Value::string(text, jinja::Origin::kRequest);
}

}  // namespace

Result<ServedModel> ServedModel::load(const std::string& model_dir, std::string name, int64_t context_max) {
  if (!std::filesystem::is_directory(model_dir))
    return fail(Error::kNotFound, "[model] path: no folder " + model_dir +
                                      "; import one with `penstock import` or set model.path");
  ASSIGN_OR_RETURN(Tokenizer tokenizer, load_tokenizer(model_dir));
  ServedModel model(std::move(name), std::move(tokenizer));
  RETURN_IF_ERROR(model.read_limits(model_dir, context_max));
  Result<ModelChat> chat = load_chat_template(model_dir);
  if (chat.ok()) {
    model.chat_ = std::move(chat).value();
  } else if (chat.code() != Error::kNotFound) {
    return chat.failure();  // a base model without a template still completes; a broken template is an error
  }
  return model;
}

ServedModel ServedModel::clone() const {
  ServedModel copy(name_, tokenizer_.clone());
  copy.context_max_ = context_max_;
  copy.vocab_size_ = vocab_size_;
  copy.eos_ids_ = eos_ids_;
  copy.chat_ = chat_;
  return copy;
}

Status ServedModel::read_limits(const std::string& model_dir, int64_t context_max) {
  const std::string path = model_dir + "/config.json";
  ASSIGN_OR_RETURN(const Json config, read_json(path));
  const auto positions = config.find("max_position_embeddings");
  if (positions == config.end() || !positions->is_number_integer() || positions->get<int64_t>() < 2)
    return fail(Error::kCorrupt, path + ": max_position_embeddings is missing or no number above 1");
  context_max_ = positions->get<int64_t>();
  if (context_max > 0) context_max_ = std::min(context_max_, context_max);
  vocab_size_ = tokenizer_.vocab_size();
  if (const auto vocab = config.find("vocab_size"); vocab != config.end() && vocab->is_number_integer())
    vocab_size_ = vocab->get<int64_t>();
  if (vocab_size_ < tokenizer_.vocab_size())
    return fail(Error::kCorrupt, path + ": vocab_size " + std::to_string(vocab_size_) +
                                     " is smaller than the tokenizer's " +
                                     std::to_string(tokenizer_.vocab_size()));
  add_ids(config, eos_ids_);
  if (const auto json = read_json(model_dir + "/generation_config.json"); json.ok()) add_ids(*json, eos_ids_);
  if (const auto json = read_json(model_dir + "/tokenizer_config.json"); json.ok())
    add_named(*json, tokenizer_, eos_ids_);
  std::sort(eos_ids_.begin(), eos_ids_.end());
  eos_ids_.erase(std::unique(eos_ids_.begin(), eos_ids_.end()), eos_ids_.end());
  return {};
}

PromptIds ServedModel::checked(std::vector<TokenId> ids, const char* param) const {
  if (ids.empty()) return bad_field(param, std::string(param) + " must hold at least one token.");
  return ids;
}

PromptIds ServedModel::chat_ids(const std::vector<ChatMessage>& messages) {
  if (!chat_)
    return bad_field("messages", "The model `" + name_ + "` has no chat template; use /v1/completions.");
  std::vector<jinja::Value> list;
  for (const ChatMessage& message : messages) {
    jinja::Dict dict;
    dict.set(std::string("role"), request_text(message.role));
    dict.set(std::string("content"), request_text(message.content));
    if (message.name) dict.set(std::string("name"), request_text(*message.name));
    list.emplace_back(std::move(dict));
  }
  jinja::Dict variables;
  variables.set(std::string("messages"), jinja::Value::list(std::move(list)));
  variables.set(std::string("tools"), jinja::None{});
  variables.set(std::string("documents"), jinja::None{});
  variables.set(std::string("add_generation_prompt"), true);
  RenderOptions options;
  options.local_time = system_local_time;
  const Result<RenderedText> rendered = render_chat(*chat_, variables, options);
  if (!rendered.ok()) {
    ApiError error = bad_field("messages", rendered.message());
    error.code = "template_error";
    return error;
  }
  Result<std::vector<TokenId>> ids = tokenizer_.encode(*rendered);
  if (!ids.ok()) return bad_field("messages", ids.message());
  return checked(std::move(ids).value(), "messages");
}

std::optional<ApiError> ServedModel::check_ids(std::span<const TokenId> ids, const char* param) const {
  for (const TokenId id : ids) {
    if (id >= vocab_size_)
      return bad_field(param, std::string(param) + ": token id " + std::to_string(id) +
                                  " is not below the vocabulary's size " + std::to_string(vocab_size_) + ".");
  }
  return std::nullopt;
}

PromptIds ServedModel::prompt_ids(const Prompt& prompt) {
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) {
    if (auto error = check_ids(*ids, "prompt")) return std::move(*error);
    return checked(*ids, "prompt");
  }
  PromptIds ids = text_ids(std::get<std::string>(prompt), true);
  if (auto* list = std::get_if<std::vector<TokenId>>(&ids)) return checked(std::move(*list), "prompt");
  return ids;
}

PromptIds ServedModel::text_ids(const std::string& text, bool add_special) {
  Result<std::vector<TokenId>> ids =
      tokenizer_.encode(text, ParseSpecial::kYes, add_special ? AddSpecial::kYes : AddSpecial::kNo);
  if (!ids.ok()) return bad_field("prompt", ids.message());
  return std::move(ids).value();
}

}  // namespace penstock::router
