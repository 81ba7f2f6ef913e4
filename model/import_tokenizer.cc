#include "model/import_tokenizer.h"

#include <nlohmann/json.hpp>
#include <unordered_set>

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kControl = 3, kUserDefined = 4;  // values of tokenizer.ggml.token_type
constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// dump() throws on strings that are not UTF-8; the exception ends here.
Result<std::string> dump_json(const Json& json, const std::string& path) {
  try {
    return json.dump(2);
  } catch (const Json::exception&) {
    return fail(Error::kCorrupt, path + ": tokenizer.ggml.*: a token, merge or template is not UTF-8");
  }
}

Json token_flags(std::string_view content, bool special) {
  return {{"content", content}, {"single_word", false}, {"lstrip", false},
          {"rstrip", false},    {"normalized", false},  {"special", special}};
}

Json byte_level(bool use_regex) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

struct PreTokenizer {
  Json json;
  bool ignore_merges = false;
};

Result<PreTokenizer> pre_tokenizer_of(const GgufFile& file) {
  ASSIGN_OR_RETURN(const auto named, file.find_string("tokenizer.ggml.pre"));
  const std::string_view name = named.value_or("gpt-2");
  if (name == "smollm") {  // digits apart, then the GPT-2 regex
    const Json digits = {{"type", "Digits"}, {"individual_digits", true}};
    return PreTokenizer{{{"type", "Sequence"}, {"pretokenizers", Json::array({digits, byte_level(true)})}}};
  }
  if (name == "gpt-2" || name == "gpt2") return PreTokenizer{byte_level(true)};
  if (name == "llama-bpe" || name == "llama3" || name == "llama-v3") {
    const Json split = {{"type", "Split"},
                        {"pattern", {{"Regex", kLlama3Pattern}}},
                        {"behavior", "Isolated"},
                        {"invert", false}};
    return PreTokenizer{{{"type", "Sequence"}, {"pretokenizers", Json::array({split, byte_level(false)})}},
                        true};
  }
  return fail(Error::kUnsupported, file.path() + ": tokenizer.ggml.pre \"" + std::string(name) +
                                       "\" is not supported; smollm, gpt-2 and llama-bpe are. Import the "
                                       "model's Hugging Face folder instead");
}

struct Vocabulary {
  std::vector<std::string_view> tokens;
  std::vector<int64_t> types;
};

Result<Vocabulary> read_vocabulary(const GgufFile& file) {
  ASSIGN_OR_RETURN(const std::string_view model, file.string("tokenizer.ggml.model"));
  if (model != "gpt2") {
    return fail(Error::kUnsupported, file.path() + ": tokenizer.ggml.model \"" + std::string(model) +
                                         "\" is not supported; byte-level BPE (\"gpt2\") is");
  }
  Vocabulary vocabulary;
  ASSIGN_OR_RETURN(vocabulary.tokens, file.strings("tokenizer.ggml.tokens"));
  ASSIGN_OR_RETURN(vocabulary.types, file.integers("tokenizer.ggml.token_type"));
  if (vocabulary.tokens.empty() || vocabulary.types.size() != vocabulary.tokens.size()) {
    return fail(Error::kCorrupt, file.path() + ": tokenizer.ggml.token_type has " +
                                     std::to_string(vocabulary.types.size()) + " entries for " +
                                     std::to_string(vocabulary.tokens.size()) + " tokens");
  }
  return vocabulary;
}

// {token: id}. Appended to the object's list directly: insertion by name would compare with all before it.
Result<Json> vocab_object(const Vocabulary& vocabulary, const std::string& path) {
  std::unordered_set<std::string_view> seen;
  Json vocab = Json::object();
  auto& entries = vocab.get_ref<Json::object_t&>();
  entries.reserve(vocabulary.tokens.size());
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (!seen.insert(vocabulary.tokens[i]).second) {
      return fail(Error::kCorrupt, path + ": tokenizer.ggml.tokens[" + std::to_string(i) + "] repeats \"" +
                                       std::string(vocabulary.tokens[i]) + "\"");
    }
    entries.emplace_back(std::string(vocabulary.tokens[i]), i);
  }
  return vocab;
}

// The token of an id-valued key, if there is one.
Result<std::optional<std::string_view>> special_token(const GgufFile& file, const char* key,
                                                      const Vocabulary& vocabulary) {
  ASSIGN_OR_RETURN(const auto id, file.find_integer(key));
  if (!id) return std::optional<std::string_view>();
  if (*id < 0 || *id >= static_cast<int64_t>(vocabulary.tokens.size())) {
    return fail(Error::kCorrupt, file.path() + ": " + key + " " + std::to_string(*id) + " is no token");
  }
  return std::optional(vocabulary.tokens[static_cast<size_t>(*id)]);
}

// Puts BOS in front of every text, where the GGUF asks for that.
Result<Json> post_processor(const GgufFile& file, const Vocabulary& vocabulary) {
  if (!file.has("tokenizer.ggml.add_bos_token")) return Json();
  ASSIGN_OR_RETURN(const bool add_bos, file.boolean("tokenizer.ggml.add_bos_token"));
  ASSIGN_OR_RETURN(const auto bos, special_token(file, "tokenizer.ggml.bos_token_id", vocabulary));
  if (!add_bos || !bos) return Json();
  ASSIGN_OR_RETURN(const int64_t bos_id, file.integer("tokenizer.ggml.bos_token_id"));
  const Json special = {{"SpecialToken", {{"id", *bos}, {"type_id", 0}}}};
  const auto sequence = [](const char* id) { return Json{{"Sequence", {{"id", id}, {"type_id", 0}}}}; };
  const Json description = {{"id", *bos}, {"ids", Json::array({bos_id})}, {"tokens", Json::array({*bos})}};
  Json special_tokens = Json::object();
  special_tokens[std::string(*bos)] = description;
  return Json{{"type", "TemplateProcessing"},
              {"single", Json::array({special, sequence("A")})},
              {"pair", Json::array({special, sequence("A"), special, sequence("B")})},
              {"special_tokens", special_tokens}};
}

}  // namespace

Result<std::string> tokenizer_json_from_gguf(const GgufFile& file) {
  ASSIGN_OR_RETURN(const Vocabulary vocabulary, read_vocabulary(file));
  ASSIGN_OR_RETURN(const PreTokenizer pre, pre_tokenizer_of(file));
  ASSIGN_OR_RETURN(const auto merges, file.strings("tokenizer.ggml.merges"));
  ASSIGN_OR_RETURN(Json vocab, vocab_object(vocabulary, file.path()));
  ASSIGN_OR_RETURN(const Json post, post_processor(file, vocabulary));
  Json added = Json::array();
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const bool special = vocabulary.types[i] == kControl;
    if (!special && vocabulary.types[i] != kUserDefined) continue;
    Json token = {{"id", i}};
    token.update(token_flags(vocabulary.tokens[i], special));
    added.push_back(std::move(token));
  }
  const Json decoder = {
      {"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  Json model = {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", nullptr},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", false},
                {"byte_fallback", false},
                {"ignore_merges", pre.ignore_merges},
                {"vocab", std::move(vocab)},
                {"merges", merges}};
  const Json json = {{"version", "1.0"},         {"truncation", nullptr},
                     {"padding", nullptr},       {"added_tokens", std::move(added)},
                     {"normalizer", nullptr},    {"pre_tokenizer", pre.json},
                     {"post_processor", post},   {"decoder", decoder},
                     {"model", std::move(model)}};
  return dump_json(json, file.path());
}

Result<std::string> tokenizer_config_json_from_gguf(const GgufFile& file, int64_t context_max) {
  ASSIGN_OR_RETURN(const Vocabulary vocabulary, read_vocabulary(file));
  Json json = {{"add_prefix_space", false}};
  Json additional = Json::array();
  struct Special {
    const char *name, *key;
  };
  for (const Special& special : {Special{"bos_token", "tokenizer.ggml.bos_token_id"},
                                 Special{"eos_token", "tokenizer.ggml.eos_token_id"},
                                 Special{"pad_token", "tokenizer.ggml.padding_token_id"},
                                 Special{"unk_token", "tokenizer.ggml.unknown_token_id"}}) {
    ASSIGN_OR_RETURN(const auto token, special_token(file, special.key, vocabulary));
    if (!token) continue;
    json[special.name] = *token;
    if (std::string_view(special.name) == "bos_token" || std::string_view(special.name) == "eos_token") {
      additional.push_back(*token);
    }
  }
  json["clean_up_tokenization_spaces"] = false;
  json["model_max_length"] = context_max;
  json["additional_special_tokens"] = std::move(additional);
  Json decoder = Json::object();
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const bool special = vocabulary.types[i] == kControl;
    if (!special && vocabulary.types[i] != kUserDefined) continue;
    decoder[std::to_string(i)] = token_flags(vocabulary.tokens[i], special);
  }
  json["added_tokens_decoder"] = std::move(decoder);
  json["tokenizer_class"] = "PreTrainedTokenizerFast";
  ASSIGN_OR_RETURN(const auto chat_template, file.find_string("tokenizer.chat_template"));
  if (chat_template) json["chat_template"] = *chat_template;
  return dump_json(json, file.path());
}

}  // namespace penstock
