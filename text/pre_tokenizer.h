// Pre-tokenizer: cuts a text into the words within which BPE merges.
//
// Immutable and shared; each thread brings its own Scratch. A word is a range of the text; words come in
// order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/regex.h"

namespace penstock {

// What becomes of the text that a regex matches and of the gaps between: a word of its own, or nothing.
struct SplitStep {
  Regex regex;
  bool keep_matches = true;
  bool keep_gaps = true;
};

class PreTokenizer {
 public:
  static constexpr std::string_view kGpt2Pattern =
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

  void add_step(SplitStep step) { steps_.push_back(std::move(step)); }
  // `text` is valid UTF-8. Appends to `words`.
  Status split(std::string_view text, Regex::Scratch& scratch, std::vector<std::string_view>& words) const;

 private:
  Status split_from(size_t step, std::string_view text, Regex::Scratch& scratch,
                    std::vector<std::string_view>& words) const;
  std::vector<SplitStep> steps_;  // each cuts the pieces of the one before; none: the text is one word
};

}  // namespace penstock
