#include "text/tokenizer_model.h"

#include <algorithm>

#include "text/byte_alphabet.h"

namespace penstock {
namespace {

// Ids may leave gaps, but what a file makes us allocate must stay in proportion to the file.
constexpr size_t kGapMax = size_t{1} << 20;

std::string quoted(std::string_view content) {
  std::string out("'");
  return out.append(content).append("'");
}

}  // namespace

Result<TokenizerModel> TokenizerModel::build(TokenizerParts parts) {
  TokenizerModel model;
  RETURN_IF_ERROR(model.add_vocabulary(parts));
  RETURN_IF_ERROR(model.add_merges(parts));
  RETURN_IF_ERROR(model.check_coverage(parts));
  for (const auto* around : {&parts.prefix, &parts.suffix}) {
    for (const TokenId id : *around) {
      if (model.token(id) == nullptr) {
        return fail(Error::kCorrupt,
                    "post_processor: id " + std::to_string(id) + " is not in the vocabulary");
      }
    }
  }
  model.added_ = AddedTokens(std::move(parts.added_tokens));
  model.pre_tokenizer_ = std::move(parts.pre_tokenizer);
  model.prefix_ = std::move(parts.prefix);
  model.suffix_ = std::move(parts.suffix);
  return model;
}

Status TokenizerModel::set_token(const std::string& content, TokenId id, bool special) {
  if (id < 0 || static_cast<size_t>(id) >= id_end_) {
    return fail(Error::kCorrupt,
                quoted(content) + " has id " + std::to_string(id) + ", far above the number of tokens");
  }
  const auto [entry, is_new] = by_content_.try_emplace(content, id);
  if (entry->second != id) {
    return fail(Error::kCorrupt, quoted(content) + " has id " + std::to_string(entry->second) + " and id " +
                                     std::to_string(id));
  }
  if (is_new && token(id) != nullptr) {
    const auto other = std::find_if(by_content_.begin(), by_content_.end(), [&](const auto& candidate) {
      return candidate.second == id && candidate.first != content;
    });
    return fail(Error::kCorrupt, "id " + std::to_string(id) + " belongs to " + quoted(other->first) +
                                     " and " + quoted(content));
  }
  if (static_cast<size_t>(id) >= tokens_.size()) tokens_.resize(static_cast<size_t>(id) + 1);
  Token& slot = tokens_[id];
  // Added tokens are written as they read; where their characters are all in the byte-level alphabet the
  // reference decodes them by it.
  slot.bytes = alphabet_to_bytes(content).value_or(content);
  slot.known = true;
  slot.special |= special;
  return {};
}

Status TokenizerModel::add_vocabulary(const TokenizerParts& parts) {
  id_end_ = parts.vocabulary.size() + parts.added_tokens.size() + kGapMax;
  by_content_.reserve(parts.vocabulary.size() + parts.added_tokens.size());
  for (const auto& [content, id] : parts.vocabulary) {
    RETURN_IF_ERROR(set_token(content, id, false).with_context("model.vocab"));
    const auto bytes = alphabet_to_bytes(content);
    if (bytes.has_value() && bytes->size() == 1) merges_.set_byte(static_cast<uint8_t>((*bytes)[0]), id);
  }
  for (const AddedToken& added : parts.added_tokens) {
    RETURN_IF_ERROR(set_token(added.content, added.id, added.special).with_context("added_tokens"));
  }
  if (!parts.ignore_merges) return {};
  for (const auto& [content, id] : parts.vocabulary) {
    // A special token is reached by its content in a template only, never by a word of the text.
    if (!tokens_[id].special) whole_words_.emplace(tokens_[id].bytes, id);
  }
  return {};
}

Status TokenizerModel::add_merges(const TokenizerParts& parts) {
  merges_.reserve(parts.merges.size());
  for (size_t i = 0; i < parts.merges.size(); ++i) {
    const auto& [left, right] = parts.merges[i];
    TokenId ids[3] = {};
    const std::string contents[3] = {left, right, left + right};
    for (int k = 0; k < 3; ++k) {
      const auto id = find(contents[k]);
      if (!id.has_value()) {
        return fail(Error::kCorrupt, "model.merges[" + std::to_string(i) + "]: " + quoted(contents[k]) +
                                         " is not in the vocabulary");
      }
      ids[k] = *id;
    }
    merges_.add(ids[0], ids[1], ids[2]);
  }
  return {};
}

// Without an unknown token a byte that has no token is lost, as in the reference; with one it would have to
// appear.
Status TokenizerModel::check_coverage(const TokenizerParts& parts) const {
  if (!parts.unknown_token.has_value()) return {};
  for (int byte = 0; byte < 256; ++byte) {
    if (merges_.has_byte(static_cast<uint8_t>(byte))) continue;
    return fail(Error::kUnsupported,
                "unk_token " + quoted(*parts.unknown_token) + " with a vocabulary that lacks byte " +
                    std::to_string(byte) +
                    "; only byte-level vocabularies that have all 256 bytes may have one");
  }
  return {};
}

std::optional<TokenId> TokenizerModel::find(std::string_view content) const {
  const auto found = by_content_.find(std::string(content));
  if (found == by_content_.end()) return std::nullopt;
  return found->second;
}

void TokenizerModel::encode_word(std::string_view word, BpeScratch& scratch,
                                 std::vector<TokenId>& ids) const {
  if (!whole_words_.empty()) {
    const auto found = whole_words_.find(std::string(word));
    if (found != whole_words_.end()) return ids.push_back(found->second);
  }
  merges_.encode(word, scratch, ids);
}

}  // namespace penstock
