// Tokenizer parts from GGUF metadata: the vocabulary is there whole, the pre-tokenizer only by name.
#include <array>

#include "text/tokenizer_json.h"

namespace penstock {
namespace {

constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDigit = R"(\p{N})";

// What a name in tokenizer.ggml.pre stands for in the publisher's tokenizer.json.
struct NamedPreTokenizer {
  std::string_view name;
  std::array<std::string_view, 2> patterns;  // each splits the pieces of the one before; empty: none
  bool ignore_merges = false;
};

constexpr NamedPreTokenizer kNamed[] = {
    {"gpt-2", {PreTokenizer::kGpt2Pattern, ""}},      {"gpt2", {PreTokenizer::kGpt2Pattern, ""}},
    {"smollm", {kDigit, PreTokenizer::kGpt2Pattern}}, {"llama-bpe", {kLlama3Pattern, ""}, true},
    {"llama3", {kLlama3Pattern, ""}, true},           {"llama-v3", {kLlama3Pattern, ""}, true},
};

constexpr int32_t kControl = 3, kUserDefined = 4;

Status add_pre_tokenizer(const std::string& name, TokenizerParts& parts) {
  std::string known;
  for (const NamedPreTokenizer& named : kNamed) {
    known += (known.empty() ? "" : ", ") + std::string(named.name);
    if (named.name != name) continue;
    for (const std::string_view pattern : named.patterns) {
      if (pattern.empty()) continue;
      ASSIGN_OR_RETURN(Regex regex, Regex::compile(pattern));
      parts.pre_tokenizer.add_step({std::move(regex)});
    }
    parts.ignore_merges = named.ignore_merges;
    return {};
  }
  return fail(Error::kUnsupported, "tokenizer.ggml.pre: '" + name + "' is not supported; known are " + known);
}

}  // namespace

Result<TokenizerParts> parts_from_vocabulary(const TokenizerVocabulary& vocabulary) {
  if (vocabulary.model != "gpt2") {
    return fail(Error::kUnsupported, "tokenizer.ggml.model: '" + vocabulary.model +
                                         "' is not supported; byte-level BPE ('gpt2') is");
  }
  TokenizerParts parts;
  RETURN_IF_ERROR(add_pre_tokenizer(vocabulary.pre, parts));
  const size_t count = vocabulary.tokens.size();
  if (count == 0 || vocabulary.types.size() != count) {
    return fail(Error::kCorrupt, "tokenizer.ggml.token_type: " + std::to_string(vocabulary.types.size()) +
                                     " entries for " + std::to_string(count) + " tokens");
  }
  for (size_t i = 0; i < count; ++i) {
    const auto id = static_cast<TokenId>(i);
    parts.vocabulary.emplace_back(vocabulary.tokens[i], id);
    const int32_t type = vocabulary.types[i];
    if (type != kControl && type != kUserDefined) continue;
    AddedToken added;
    added.content = vocabulary.tokens[i];
    added.id = id;
    added.special = type == kControl;
    parts.added_tokens.push_back(std::move(added));
  }
  for (size_t i = 0; i < vocabulary.merges.size(); ++i) {
    const std::string& line = vocabulary.merges[i];
    const size_t space = line.find(' ', 1);
    if (space == std::string::npos || space + 1 == line.size()) {
      return fail(Error::kCorrupt, "tokenizer.ggml.merges[" + std::to_string(i) + "]: '" + line +
                                       "' is not two tokens with a space between");
    }
    parts.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  for (const auto& id : {vocabulary.bos, vocabulary.eos}) {
    if (id.has_value() && (*id < 0 || static_cast<size_t>(*id) >= count)) {
      return fail(Error::kCorrupt,
                  "tokenizer.ggml.bos/eos_token_id: " + std::to_string(*id) + " is no token");
    }
  }
  parts.bos = vocabulary.bos;
  parts.eos = vocabulary.eos;
  if (vocabulary.add_bos && vocabulary.bos.has_value()) parts.prefix.push_back(*vocabulary.bos);
  return parts;
}

}  // namespace penstock
