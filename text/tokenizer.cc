#include "text/tokenizer.h"

#include "text/tokenizer_json.h"
#include "text/tokenizer_model.h"
#include "text/utf8.h"
#include "text/word_cache.h"

namespace penstock {

class TokenizerScratch {
 public:
  WordCache cache;
  BpeScratch bpe;
  Regex::Scratch regex;
  std::vector<std::string_view> words;
};

namespace {

void encode_word(const TokenizerModel& model, std::string_view word, TokenizerScratch& scratch,
                 std::vector<TokenId>& ids) {
  if (!WordCache::fits(word)) return model.encode_word(word, scratch.bpe, ids);
  WordCache::Slot& slot = scratch.cache.slot(word);
  if (WordCache::holds(slot, word)) {
    ids.insert(ids.end(), slot.ids, slot.ids + slot.count);
    return;
  }
  const size_t before = ids.size();
  model.encode_word(word, scratch.bpe, ids);
  WordCache::store(slot, word, std::span(ids).subspan(before));
}

Result<Tokenizer> read_failure(const Failure& failure, std::string_view name) {
  return Result<Tokenizer>(failure).with_context(name);
}

}  // namespace

Result<std::vector<TokenId>> Tokenizer::encode_ranges(std::string_view text,
                                                      std::span<const TextRange> special_ranges,
                                                      AddSpecial add_special) {
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 3 + 4);
  if (add_special == AddSpecial::kYes) ids = model_->prefix();
  for (const TextSegment& segment : model_->added_tokens().split(text, special_ranges)) {
    if (segment.id >= 0) {
      ids.push_back(segment.id);
      continue;
    }
    scratch_->words.clear();
    const auto stretch = text.substr(segment.range.begin, segment.range.end - segment.range.begin);
    RETURN_IF_ERROR(model_->pre_tokenizer().split(stretch, scratch_->regex, scratch_->words));
    for (const std::string_view word : scratch_->words) encode_word(*model_, word, *scratch_, ids);
  }
  if (add_special == AddSpecial::kYes) {
    ids.insert(ids.end(), model_->suffix().begin(), model_->suffix().end());
  }
  return ids;
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, ParseSpecial parse_special,
                                               AddSpecial add_special) {
  std::string repaired;
  if (!is_valid_utf8(text)) {
    append_repaired_utf8(text, repaired);
    text = repaired;
  }
  const TextRange everything = {0, text.size()};
  const size_t ranges = parse_special == ParseSpecial::kYes ? 1 : 0;
  return encode_ranges(text, std::span(&everything, ranges), add_special);
}

Result<std::vector<TokenId>> Tokenizer::encode(const RenderedText& prompt) {
  // Repairing would move the ranges. A template and JSON are valid UTF-8, so this is a caller's own string.
  if (!is_valid_utf8(prompt.text)) return encode(prompt.text, ParseSpecial::kNo);
  return encode_ranges(prompt.text, prompt.from_template, AddSpecial::kNo);
}

std::string Tokenizer::decode(std::span<const TokenId> ids, SkipSpecial skip_special) const {
  std::string bytes;
  for (const TokenId id : ids) {
    const TokenizerModel::Token* token = model_->token(id);
    if (token == nullptr || (token->special && skip_special == SkipSpecial::kYes)) continue;
    bytes += token->bytes;
  }
  std::string text;
  text.reserve(bytes.size());
  append_repaired_utf8(bytes, text);
  return text;
}

std::string_view Tokenizer::token_bytes(TokenId id) const {
  const TokenizerModel::Token* token = model_->token(id);
  return token != nullptr ? std::string_view(token->bytes) : std::string_view();
}

bool Tokenizer::is_special(TokenId id) const {
  const TokenizerModel::Token* token = model_->token(id);
  return token != nullptr && token->special;
}

std::optional<TokenId> Tokenizer::find_token(std::string_view content) const { return model_->find(content); }
int32_t Tokenizer::vocab_size() const { return model_->size(); }

std::vector<TokenId> Tokenizer::special_tokens() const {
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < model_->size(); ++id) {
    if (is_special(id)) ids.push_back(id);
  }
  return ids;
}

Tokenizer::Tokenizer(std::shared_ptr<const TokenizerModel> model)
    : model_(std::move(model)), scratch_(std::make_unique<TokenizerScratch>()) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;
Tokenizer Tokenizer::clone() const { return Tokenizer(model_); }

Result<Tokenizer> Tokenizer::from_json(std::string_view json, std::string_view name) {
  auto parts = parts_from_tokenizer_json(json);
  if (!parts.ok()) return read_failure(parts.failure(), name);
  auto model = TokenizerModel::build(std::move(*parts));
  if (!model.ok()) return read_failure(model.failure(), name);
  return Tokenizer(std::make_shared<const TokenizerModel>(std::move(*model)));
}

Result<Tokenizer> Tokenizer::from_file(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string json, read_text_file(path));
  return from_json(json, path);
}

}  // namespace penstock
