// Incremental detokenizer: one per stream of tokens; emits text that nothing later can change.
//
// Belongs to the thread of its stream; the Tokenizer must outlive it. Whole code points only: an incomplete
// character at the end is held back, a maximal ill-formed part becomes one U+FFFD as soon as it is known to
// be ill-formed, and flush() turns a held-back rest into one U+FFFD. The pieces joined equal
// Tokenizer::decode().
#pragma once

#include <string>
#include <string_view>

#include "base/ids.h"
#include "text/tokenizer.h"

namespace penstock {

class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, SkipSpecial skip_special = SkipSpecial::kNo)
      : tokenizer_(&tokenizer), skip_special_(skip_special) {}

  // Appends what this token settles to `out`; often nothing while a character is incomplete.
  void push(TokenId id, std::string& out);
  std::string push(TokenId id);

  // The end of the stream: the held-back rest as U+FFFD, or nothing. The detokenizer is as new afterwards.
  std::string flush();
  // The end of the stream, dropping a character cut at the end.
  void discard() { held_.clear(); }

  // The token's own bytes, for the `bytes` of log-probabilities; the same whatever is held back.
  std::string_view token_bytes(TokenId id) const { return tokenizer_->token_bytes(id); }
  bool holds_back() const { return !held_.empty(); }

 private:
  const Tokenizer* tokenizer_;
  SkipSpecial skip_special_;
  std::string held_;  // at most 3 bytes: the start of a well-formed character
};

}  // namespace penstock
