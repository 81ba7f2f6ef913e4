// Byte-level BPE tokenizer: text to token ids and back, equal to Hugging Face `tokenizers` id for id.
//
// A Tokenizer belongs to one thread: encode() fills a bounded cache of words. clone() gives another thread
// its own at the cost of that cache; the vocabulary is shared and immutable. The const methods may be called
// from any thread. Text that is not valid UTF-8 is read as if every ill-formed part were U+FFFD.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/rendered_text.h"

namespace penstock {

// kNo: special tokens spelled in the text are plain text, as user content must be read. Added tokens that are
// not special (`<think>` of some models) match either way.
enum class ParseSpecial : bool { kNo, kYes };
// kYes: also what the model's post-processor puts around a text, usually BOS. Chat templates write their own.
enum class AddSpecial : bool { kNo, kYes };
enum class SkipSpecial : bool { kNo, kYes };

class TokenizerModel;    // immutable: vocabulary, merges, pre-tokenizer, added tokens
class TokenizerScratch;  // mutable: word cache, regex match state

class Tokenizer {
 public:
  // `path` is a tokenizer.json. Errors name the file and the field; what is well-formed but not byte-level
  // BPE is kUnsupported.
  static Result<Tokenizer> from_file(const std::string& path);
  static Result<Tokenizer> from_json(std::string_view json, std::string_view name);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();
  Tokenizer clone() const;

  // Fails only when the model's own regex gives up on the text (kResourceExhausted).
  Result<std::vector<TokenId>> encode(std::string_view text, ParseSpecial parse_special,
                                      AddSpecial add_special = AddSpecial::kNo);
  // Special tokens only where the template itself wrote them.
  Result<std::vector<TokenId>> encode(const RenderedText& prompt);

  // All at once; ill-formed UTF-8 becomes U+FFFD. Ids out of range add nothing. For streams: detokenizer.h.
  std::string decode(std::span<const TokenId> ids, SkipSpecial skip_special = SkipSpecial::kNo) const;

  // The bytes a token stands for, perhaps part of a character; empty for an id out of range. Valid as long as
  // this object or a clone lives.
  std::string_view token_bytes(TokenId id) const;
  bool is_special(TokenId id) const;
  // The id of a token by its content as tokenizer.json spells added tokens, special ones included.
  std::optional<TokenId> find_token(std::string_view content) const;
  // One more than the largest id. A model's vocab_size may be larger (padding).
  int32_t vocab_size() const;
  // Special tokens in ascending order of id.
  std::vector<TokenId> special_tokens() const;

 private:
  explicit Tokenizer(std::shared_ptr<const TokenizerModel> model);
  Result<std::vector<TokenId>> encode_ranges(std::string_view text, std::span<const TextRange> special_ranges,
                                             AddSpecial add_special);

  std::shared_ptr<const TokenizerModel> model_;
  std::unique_ptr<TokenizerScratch> scratch_;
};

}  // namespace penstock
