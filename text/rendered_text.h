// A prompt with its provenance: which bytes the chat template wrote itself, and which came from variables.
//
// Only the template's own bytes may become special tokens (Tokenizer::encode): user text that spells one
// stays text.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace penstock {

struct TextRange {
  size_t begin = 0;
  size_t end = 0;  // one past the last byte
  friend bool operator==(const TextRange&, const TextRange&) = default;
};

struct RenderedText {
  std::string text;
  std::vector<TextRange> from_template;  // ascending, disjoint, not empty, not touching
};

}  // namespace penstock
