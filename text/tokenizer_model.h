// The immutable part of a tokenizer: built once from parts, shared by every Tokenizer cloned from it.
//
// Private to text/: tokenizer.h is the interface. The parts come from a tokenizer.json
// (tokenizer_json.cc).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/pre_tokenizer.h"

namespace penstock {

// What the loader found. Strings are in the byte-level alphabet, as files spell them.
struct TokenizerParts {
  std::vector<std::pair<std::string, TokenId>> vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;  // best first
  std::vector<AddedToken> added_tokens;
  PreTokenizer pre_tokenizer;
  bool ignore_merges = false;  // a word that is a token needs no merges
  std::optional<std::string> unknown_token;
  std::vector<TokenId> prefix, suffix;  // what the post-processor puts around a text
};

class TokenizerModel {
 public:
  // kCorrupt when the parts contradict each other; the message names the entry.
  static Result<TokenizerModel> build(TokenizerParts parts);

  struct Token {
    std::string bytes;
    bool known = false;
    bool special = false;
  };
  const Token* token(TokenId id) const {
    return id >= 0 && static_cast<size_t>(id) < tokens_.size() && tokens_[id].known ? &tokens_[id] : nullptr;
  }
  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  std::optional<TokenId> find(std::string_view content) const;
  // Ids of one word: the whole of it under ignore_merges, else by merging.
  void encode_word(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& ids) const;

  const AddedTokens& added_tokens() const { return added_; }
  const PreTokenizer& pre_tokenizer() const { return pre_tokenizer_; }
  const std::vector<TokenId>& prefix() const { return prefix_; }
  const std::vector<TokenId>& suffix() const { return suffix_; }

 private:
  Status add_vocabulary(const TokenizerParts& parts);
  Status add_merges(const TokenizerParts& parts);
  Status check_coverage(const TokenizerParts& parts) const;
  Status set_token(const std::string& content, TokenId id, bool special);

  size_t id_end_ = 0;  // ids must stay below
  std::vector<Token> tokens_;
  std::unordered_map<std::string, TokenId> by_content_;
  std::unordered_map<std::string, TokenId> whole_words_;  // by bytes; filled under ignore_merges only
  BpeMerges merges_;
  AddedTokens added_;
  PreTokenizer pre_tokenizer_;
  std::vector<TokenId> prefix_, suffix_;
};

}  // namespace penstock
