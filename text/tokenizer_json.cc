// tokenizer.json of Hugging Face tokenizers, as far as it is byte-level BPE. Every field that would change
// ids and that we do not know is refused by name: a wrong id is worse than no tokenizer.
#include "text/tokenizer_json.h"

#include <simdjson.h>

#include <cstdio>
#include <memory>

namespace penstock {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

Failure corrupt(const std::string& field, const std::string& expected) {
  return fail(Error::kCorrupt, field + ": expected " + expected);
}

Failure unsupported(const std::string& field, const std::string& what) {
  return fail(Error::kUnsupported, field + ": " + what + " is not supported; byte-level BPE tokenizers are");
}

// An absent member and null are the same in these files.
std::optional<element> member(const object& parent, std::string_view key) {
  element value;
  if (parent[key].get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return value;
}

bool flag(const object& parent, std::string_view key, bool otherwise) {
  bool value = otherwise;
  if (const auto found = member(parent, key); found && found->get(value) != simdjson::SUCCESS)
    return otherwise;
  return value;
}

Result<std::string> text(const object& parent, const std::string& field, std::string_view key) {
  std::string_view value;
  const auto found = member(parent, key);
  if (!found || found->get(value) != simdjson::SUCCESS) {
    return corrupt(field + "." + std::string(key), "a string");
  }
  return std::string(value);
}

Result<object> as_object(const element& value, const std::string& field) {
  object result;
  if (value.get(result) != simdjson::SUCCESS) return corrupt(field, "an object");
  return result;
}

Result<array> as_array(const object& parent, const std::string& field, std::string_view key) {
  array result;
  const auto found = member(parent, key);
  if (!found || found->get(result) != simdjson::SUCCESS)
    return corrupt(field + "." + std::string(key), "a list");
  return result;
}

std::string at(const std::string& field, size_t index) { return field + "[" + std::to_string(index) + "]"; }

// ---- model ----

Status read_vocabulary(const object& model, TokenizerParts& parts) {
  const auto found = member(model, "vocab");
  if (!found) return corrupt("model.vocab", "an object from tokens to ids");
  ASSIGN_OR_RETURN(const object vocabulary, as_object(*found, "model.vocab"));
  parts.vocabulary.reserve(vocabulary.size());
  for (const auto& [content, value] : vocabulary) {
    int64_t id = 0;
    if (value.get(id) != simdjson::SUCCESS || id < 0 || id > INT32_MAX) {
      return corrupt("model.vocab['" + std::string(content) + "']", "an id (0 or more)");
    }
    parts.vocabulary.emplace_back(content, static_cast<TokenId>(id));
  }
  if (parts.vocabulary.empty()) return corrupt("model.vocab", "at least one token");
  return {};
}

// "a b" in files written before September 2024, ["a", "b"] since.
Status read_merges(const object& model, TokenizerParts& parts) {
  ASSIGN_OR_RETURN(const array merges, as_array(model, "model", "merges"));
  parts.merges.reserve(merges.size());
  size_t index = 0;
  for (const element& entry : merges) {
    const std::string field = at("model.merges", index++);
    std::string_view line, left, right;
    array pair;
    if (entry.get(line) == simdjson::SUCCESS) {
      const size_t space = line.find(' ');
      if (space == 0 || space == std::string_view::npos ||
          line.find(' ', space + 1) != std::string_view::npos || space + 1 == line.size()) {
        return corrupt(field, "two tokens with one space between");
      }
      left = line.substr(0, space);
      right = line.substr(space + 1);
    } else if (entry.get(pair) != simdjson::SUCCESS || pair.size() != 2 ||
               pair.at(0).get(left) != simdjson::SUCCESS || pair.at(1).get(right) != simdjson::SUCCESS) {
      return corrupt(field, "a string \"left right\" or a list of two strings");
    }
    parts.merges.emplace_back(left, right);
  }
  return {};
}

Status read_model(const object& root, TokenizerParts& parts) {
  const auto found = member(root, "model");
  if (!found) return corrupt("model", "an object");
  ASSIGN_OR_RETURN(const object model, as_object(*found, "model"));
  if (member(model, "type")) {  // files of before 2020 leave it out
    ASSIGN_OR_RETURN(const std::string type, text(model, "model", "type"));
    if (type != "BPE") return unsupported("model.type", "'" + type + "'");
  }
  if (flag(model, "byte_fallback", false)) {
    return unsupported("model.byte_fallback", "BPE over characters with byte fallback (Llama 2, Mistral)");
  }
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    std::string_view affix;
    const auto value = member(model, key);
    if (value && (value->get(affix) != simdjson::SUCCESS || !affix.empty())) {
      return unsupported("model." + std::string(key), "an affix of words");
    }
  }
  double dropout = 0;
  if (const auto value = member(model, "dropout");
      value && (value->get(dropout) != simdjson::SUCCESS || dropout != 0)) {
    return unsupported("model.dropout", "dropout");
  }
  if (member(model, "unk_token")) {
    ASSIGN_OR_RETURN(parts.unknown_token, text(model, "model", "unk_token"));
  }
  parts.ignore_merges = flag(model, "ignore_merges", false);
  RETURN_IF_ERROR(read_vocabulary(model, parts));
  return read_merges(model, parts);
}

// ---- added tokens ----

Status read_added_tokens(const object& root, TokenizerParts& parts) {
  if (!member(root, "added_tokens")) return {};
  ASSIGN_OR_RETURN(const array tokens, as_array(root, "", "added_tokens"));
  size_t index = 0;
  for (const element& entry : tokens) {
    const std::string field = at("added_tokens", index++);
    ASSIGN_OR_RETURN(const object token, as_object(entry, field));
    AddedToken added;
    ASSIGN_OR_RETURN(added.content, text(token, field, "content"));
    int64_t id = -1;
    const auto value = member(token, "id");
    if (!value || value->get(id) != simdjson::SUCCESS || id < 0 || id > INT32_MAX) {
      return corrupt(field + ".id", "an id (0 or more)");
    }
    added.id = static_cast<TokenId>(id);
    added.special = flag(token, "special", false);
    added.left_strip = flag(token, "lstrip", false);
    added.right_strip = flag(token, "rstrip", false);
    added.single_word = flag(token, "single_word", false);
    added.normalized = flag(token, "normalized", !added.special);
    parts.added_tokens.push_back(std::move(added));
  }
  return {};
}

// ---- pre-tokenizer ----

Status add_split(const object& step, const std::string& field, PreTokenizer& pre) {
  const auto found = member(step, "pattern");
  if (!found) return corrupt(field + ".pattern", "an object with Regex or String");
  ASSIGN_OR_RETURN(const object pattern, as_object(*found, field + ".pattern"));
  std::string source;
  if (member(pattern, "Regex")) {
    ASSIGN_OR_RETURN(source, text(pattern, field + ".pattern", "Regex"));
  } else {
    ASSIGN_OR_RETURN(const std::string literal, text(pattern, field + ".pattern", "String"));
    source = Regex::quote(literal);
  }
  ASSIGN_OR_RETURN(Regex regex, Regex::compile(source).with_context(field + ".pattern"));
  ASSIGN_OR_RETURN(const std::string behavior, text(step, field, "behavior"));
  if (behavior == "Isolated") {
    pre.add_step({std::move(regex)});
  } else if (behavior == "Removed") {
    const bool invert = flag(step, "invert", false);
    pre.add_step({std::move(regex), invert, !invert});
  } else {
    return unsupported(field + ".behavior", "'" + behavior + "'");
  }
  return {};
}

// Sets `byte_level` when the step is the one that turns characters into bytes: it must be the last.
Status add_step(const object& step, const std::string& field, PreTokenizer& pre, bool& byte_level) {
  ASSIGN_OR_RETURN(const std::string type, text(step, field, "type"));
  if (byte_level) return unsupported(field, "a step after ByteLevel");
  if (type == "Sequence") {
    ASSIGN_OR_RETURN(const array steps, as_array(step, field, "pretokenizers"));
    size_t index = 0;
    for (const element& entry : steps) {
      const std::string inner = at(field + ".pretokenizers", index++);
      ASSIGN_OR_RETURN(const object child, as_object(entry, inner));
      RETURN_IF_ERROR(add_step(child, inner, pre, byte_level));
    }
    return {};
  }
  if (type == "Split") return add_split(step, field, pre);
  if (type == "Digits") {
    ASSIGN_OR_RETURN(Regex regex,
                     Regex::compile(flag(step, "individual_digits", false) ? "\\p{N}" : "\\p{N}+"));
    pre.add_step({std::move(regex)});
    return {};
  }
  if (type != "ByteLevel") return unsupported(field + ".type", "'" + type + "'");
  byte_level = true;
  if (flag(step, "add_prefix_space", true)) return unsupported(field + ".add_prefix_space", "true");
  if (!flag(step, "use_regex", true)) return {};
  ASSIGN_OR_RETURN(Regex regex, Regex::compile(PreTokenizer::kGpt2Pattern));
  pre.add_step({std::move(regex)});
  return {};
}

Status read_pre_tokenizer(const object& root, TokenizerParts& parts) {
  bool byte_level = false;
  if (const auto found = member(root, "pre_tokenizer")) {
    ASSIGN_OR_RETURN(const object step, as_object(*found, "pre_tokenizer"));
    RETURN_IF_ERROR(add_step(step, "pre_tokenizer", parts.pre_tokenizer, byte_level));
  }
  if (!byte_level) return unsupported("pre_tokenizer", "a pre-tokenizer without a ByteLevel step");
  return {};
}

// ---- around: normalizer, post-processor, decoder ----

Status read_template(const object& processor, const std::string& field, TokenizerParts& parts) {
  ASSIGN_OR_RETURN(const array single, as_array(processor, field, "single"));
  bool after = false;
  size_t index = 0;
  for (const element& entry : single) {
    const std::string item = at(field + ".single", index++);
    ASSIGN_OR_RETURN(const object piece, as_object(entry, item));
    if (member(piece, "Sequence")) {
      after = true;
      continue;
    }
    const auto special = member(piece, "SpecialToken");
    if (!special) return corrupt(item, "Sequence or SpecialToken");
    ASSIGN_OR_RETURN(const object token, as_object(*special, item + ".SpecialToken"));
    ASSIGN_OR_RETURN(const std::string name, text(token, item + ".SpecialToken", "id"));
    array ids;
    if (processor["special_tokens"][name]["ids"].get(ids) != simdjson::SUCCESS) {
      return corrupt(field + ".special_tokens['" + name + "'].ids", "a list of ids");
    }
    for (const element& value : ids) {
      int64_t id = 0;
      if (value.get(id) != simdjson::SUCCESS || id < 0 || id > INT32_MAX) {
        return corrupt(field + ".special_tokens['" + name + "'].ids", "a list of ids");
      }
      (after ? parts.suffix : parts.prefix).push_back(static_cast<TokenId>(id));
    }
  }
  return {};
}

Status read_processor(const object& processor, const std::string& field, TokenizerParts& parts) {
  ASSIGN_OR_RETURN(const std::string type, text(processor, field, "type"));
  if (type == "ByteLevel") return {};  // moves offsets only
  if (type == "TemplateProcessing") return read_template(processor, field, parts);
  if (type != "Sequence") return unsupported(field + ".type", "'" + type + "'");
  ASSIGN_OR_RETURN(const array processors, as_array(processor, field, "processors"));
  size_t index = 0;
  for (const element& entry : processors) {
    const std::string inner = at(field + ".processors", index++);
    ASSIGN_OR_RETURN(const object child, as_object(entry, inner));
    RETURN_IF_ERROR(read_processor(child, inner, parts));
  }
  return {};
}

Status read_around(const object& root, TokenizerParts& parts) {
  if (const auto found = member(root, "normalizer")) {
    ASSIGN_OR_RETURN(const object normalizer, as_object(*found, "normalizer"));
    ASSIGN_OR_RETURN(const std::string type, text(normalizer, "normalizer", "type"));
    return unsupported("normalizer.type", "'" + type + "'");
  }
  if (const auto found = member(root, "decoder")) {
    ASSIGN_OR_RETURN(const object decoder, as_object(*found, "decoder"));
    ASSIGN_OR_RETURN(const std::string type, text(decoder, "decoder", "type"));
    if (type != "ByteLevel") return unsupported("decoder.type", "'" + type + "'");
  }
  if (const auto found = member(root, "post_processor")) {
    ASSIGN_OR_RETURN(const object processor, as_object(*found, "post_processor"));
    return read_processor(processor, "post_processor", parts);
  }
  return {};
}

}  // namespace

Result<TokenizerParts> parts_from_tokenizer_json(std::string_view json) {
  simdjson::dom::parser parser;
  element document;
  if (const auto error = parser.parse(json.data(), json.size()).get(document); error != simdjson::SUCCESS) {
    return fail(Error::kCorrupt, std::string("not JSON: ") + simdjson::error_message(error));
  }
  ASSIGN_OR_RETURN(const object root, as_object(document, "the file"));
  TokenizerParts parts;
  // Around first: a normalizer or decoder tells most clearly which family an unsupported file belongs to.
  RETURN_IF_ERROR(read_around(root, parts));
  RETURN_IF_ERROR(read_added_tokens(root, parts));
  RETURN_IF_ERROR(read_pre_tokenizer(root, parts));
  RETURN_IF_ERROR(read_model(root, parts));
  return parts;
}

Result<std::string> read_text_file(const std::string& path) {
  constexpr size_t kFileMax = size_t{1} << 30;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) return fail(Error::kNotFound, path + ": cannot be opened");
  std::string content;
  char buffer[1 << 16];
  for (;;) {
    const size_t read = std::fread(buffer, 1, sizeof(buffer), file.get());
    content.append(buffer, read);
    if (content.size() > kFileMax) return fail(Error::kInvalidArgument, path + ": larger than 1 GiB");
    if (read < sizeof(buffer)) break;
  }
  if (std::ferror(file.get()) != 0) return fail(Error::kIo, path + ": cannot be read (is it a folder?)");
  return content;
}

}  // namespace penstock
