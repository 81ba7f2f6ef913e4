#include "text/added_tokens.h"

#include <algorithm>

#include "text/unicode.h"
#include "text/utf8.h"

namespace penstock {
namespace {

size_t last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

bool begins_with_word(std::string_view text) {
  return !text.empty() && is_word_character(decode_utf8(text).code_point);
}

bool ends_with_word(std::string_view text) {
  return !text.empty() && is_word_character(decode_utf8(text.substr(last_character(text))).code_point);
}

size_t trailing_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    const size_t at = last_character(text.substr(0, end));
    if (!is_white_space(decode_utf8(text.substr(at)).code_point)) break;
    end = at;
  }
  return text.size() - end;
}

size_t leading_space(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Step step = decode_utf8(text.substr(at));
    if (!is_white_space(step.code_point)) break;
    at += step.length;
  }
  return at;
}

bool inside_one(TextRange range, std::span<const TextRange> ranges) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), range.begin,
                                      [](size_t at, const TextRange& r) { return at < r.begin; });
  return after != ranges.begin() && std::prev(after)->end >= range.end;
}

// Partly inside the ranges, partly outside.
bool is_mixed(TextRange range, std::span<const TextRange> ranges) {
  const auto touches = std::upper_bound(ranges.begin(), ranges.end(), range.begin,
                                        [](size_t at, const TextRange& r) { return at < r.end; });
  return touches != ranges.end() && touches->begin < range.end && !inside_one(range, ranges);
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    has_normalized_ |= tokens_[i].normalized;
    insert(tokens_[i].normalized ? normalized_ : raw_, tokens_[i].content, static_cast<int32_t>(i));
  }
}

void AddedTokens::insert(Trie& trie, std::string_view content, int32_t token) {
  int32_t node = 0;
  for (const char c : content) {
    const auto byte = static_cast<unsigned char>(c);
    int32_t child = trie.nodes[node].first_child;
    while (child >= 0 && trie.nodes[child].byte != byte) child = trie.nodes[child].next_sibling;
    if (child < 0) {
      child = static_cast<int32_t>(trie.nodes.size());
      trie.nodes.push_back({-1, trie.nodes[node].first_child, -1, byte});
      trie.nodes[node].first_child = child;
      if (node == 0) trie.by_first_byte[byte] = child;
    }
    node = child;
  }
  if (node != 0 && trie.nodes[node].token < 0) trie.nodes[node].token = token;
}

template <typename Accept>
int32_t AddedTokens::longest_at(const Trie& trie, std::string_view text, size_t at,
                                const Accept& accept) const {
  int32_t node = trie.by_first_byte[static_cast<unsigned char>(text[at])];
  int32_t best = -1;
  while (node > 0) {
    if (trie.nodes[node].token >= 0 && accept(tokens_[trie.nodes[node].token])) best = trie.nodes[node].token;
    if (++at == text.size()) break;
    const auto byte = static_cast<unsigned char>(text[at]);
    node = trie.nodes[node].first_child;
    while (node >= 0 && trie.nodes[node].byte != byte) node = trie.nodes[node].next_sibling;
  }
  return best;
}

// A special token in a request's text is skipped whole, as the reference skips it: no other token is looked
// for inside. One that reaches from one origin into the other is none, and hides no other.
void AddedTokens::split_range(const Trie& trie, std::string_view whole, TextRange range,
                              std::span<const TextRange> special_ranges,
                              std::vector<TextSegment>& out) const {
  const std::string_view text = whole.substr(0, range.end);
  size_t done = range.begin;
  for (size_t at = range.begin; at < range.end;) {
    const int32_t found = longest_at(trie, text, at, [&](const AddedToken& token) {
      return !token.special || !is_mixed({at, at + token.content.size()}, special_ranges);
    });
    if (found < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[found];
    size_t begin = at, end = at + token.content.size();
    const bool in_a_word = token.single_word && (ends_with_word(text.substr(range.begin, at - range.begin)) ||
                                                 begins_with_word(text.substr(end)));
    if (in_a_word || (token.special && !inside_one({begin, end}, special_ranges))) {
      at = end;
      continue;
    }
    if (token.left_strip) begin -= trailing_space(text.substr(done, at - done));
    if (token.right_strip) end += leading_space(text.substr(end));
    if (begin > done) out.push_back({{done, begin}, -1});
    out.push_back({{begin, end}, token.id});
    done = at = end;
  }
  if (done < range.end) out.push_back({{done, range.end}, -1});
}

std::vector<TextSegment> AddedTokens::split(std::string_view text,
                                            std::span<const TextRange> special_ranges) const {
  std::vector<TextSegment> segments;
  split_range(raw_, text, {0, text.size()}, special_ranges, segments);
  if (!has_normalized_) return segments;
  std::vector<TextSegment> finer;
  for (const TextSegment& segment : segments) {
    if (segment.id >= 0) {
      finer.push_back(segment);
    } else {
      split_range(normalized_, text, segment.range, special_ranges, finer);
    }
  }
  return finer;
}

}  // namespace penstock
