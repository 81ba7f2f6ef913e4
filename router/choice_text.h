// From the tokens of one choice to the text, log-probabilities and ids that a client may see.
//
// One per sequence, on the router's thread; the tokenizer must outlive it. What may still become a stop
// string is held back, with its tokens; a character cut at the end is dropped.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "base/ids.h"
#include "router/request.h"
#include "text/detokenizer.h"
#include "text/stop_strings.h"

namespace penstock::router {

struct Alternative {
  TokenId token = 0;
  float logprob = 0;
};

// As a node sampled it.
struct GeneratedToken {
  TokenId token = 0;
  float logprob = 0;
  std::vector<Alternative> top;
  bool is_stop_id = false;  // it ended the sequence and has no text of its own
};

// As a client sees it. The pieces of all tokens joined are the text.
struct ShownToken {
  GeneratedToken generated;
  std::string piece;       // what it added to the text; empty while a character is incomplete
  size_t text_offset = 0;  // code points of the text before it
};

struct TextDelta {
  std::string text;
  std::vector<ShownToken> tokens;  // those whose text is out
  bool empty() const { return text.empty() && tokens.empty(); }
};

class ChoiceText {
 public:
  ChoiceText(const Tokenizer& tokenizer, const GenerationOptions& options);

  // Appends to `delta` what the token settles. True when a stop string ended the choice: then finish()
  // follows and no more tokens.
  bool push(GeneratedToken token, TextDelta& delta);
  // The choice has ended: whatever is held back and is no stop string comes out.
  void finish(TextDelta& delta);

  int64_t token_count() const { return token_count_; }

 private:
  void release(TextDelta& delta, std::string text);

  Detokenizer detokenizer_;
  StopStrings stops_;
  std::deque<ShownToken> held_;  // tokens whose piece is not fully out yet
  size_t held_released_ = 0;     // bytes of the first held token's piece that are out
  size_t text_code_points_ = 0;  // of the pieces pushed so far
  int64_t token_count_ = 0;
};

}  // namespace penstock::router
