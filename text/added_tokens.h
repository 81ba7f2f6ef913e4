// Added tokens: strings that become one id before the pre-tokenizer sees the text, special ones among them.
//
// Immutable once built. Found leftmost first, the longest of those that begin at one place.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "text/rendered_text.h"

namespace penstock {

struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool special = false;
  bool left_strip = false, right_strip = false;  // swallows white space before, after
  bool single_word = false;                      // not inside a word
  bool normalized = false;                       // looked for after normalisation, in what the others left
};

// A part of the text: an added token, or plain text (id < 0).
struct TextSegment {
  TextRange range;
  TokenId id = -1;
};

class AddedTokens {
 public:
  // An empty content is ignored. Of two tokens with one content the first counts.
  explicit AddedTokens(std::vector<AddedToken> tokens = {});

  // Special tokens are found only wholly inside one of `special_ranges` (ascending); the others everywhere.
  std::vector<TextSegment> split(std::string_view text, std::span<const TextRange> special_ranges) const;
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  // A trie in one array; the children of a node are siblings in a list.
  struct Node {
    int32_t first_child = -1, next_sibling = -1;
    int32_t token = -1;
    unsigned char byte = 0;
  };
  struct Trie {
    std::vector<Node> nodes = std::vector<Node>(1);
    std::array<int32_t, 256> by_first_byte{};  // node of depth 1, 0 for none
  };
  static void insert(Trie& trie, std::string_view content, int32_t token);
  // Index of the longest token that begins at text[at] and that `accept` takes, or -1.
  template <typename Accept>
  int32_t longest_at(const Trie& trie, std::string_view text, size_t at, const Accept& accept) const;
  void split_range(const Trie& trie, std::string_view text, TextRange range,
                   std::span<const TextRange> special_ranges, std::vector<TextSegment>& out) const;

  std::vector<AddedToken> tokens_;
  Trie raw_, normalized_;
  bool has_normalized_ = false;
};

}  // namespace penstock
