// Finds stop strings in a stream of text pieces, however the pieces cut them.
//
// One StopStrings per stream, on its thread. What might still become a stop string is held back and released
// as soon as it cannot. The stop string whose end comes first in the text wins; of several that end at the
// same place, the longest.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

class StopStrings {
 public:
  // Empty stop strings are ignored. With include_stop, the text that ends the stream is emitted too.
  explicit StopStrings(std::vector<std::string> stops, bool include_stop = false);

  // Appends to `out` what is safe to show. True when a stop string ended the stream: then matched() names it
  // and later pieces are swallowed.
  bool push(std::string_view piece, std::string& out);
  // The stream ended by itself: releases what was held back.
  void flush(std::string& out);

  bool stopped() const { return matched_.has_value(); }
  // Index into the list given, of the stop string that ended the stream.
  std::optional<size_t> matched() const { return matched_; }
  size_t held_bytes() const { return held_.size(); }

 private:
  // Aho-Corasick automaton over bytes: linear in the text whatever the stop strings are.
  struct State {
    std::vector<std::pair<unsigned char, int>> next;  // edges of the trie
    int fail = 0;
    int depth = 0;
    int stop = -1;  // index of the longest stop string that ends here
    int stop_length = 0;
  };
  void insert(std::string_view stop, int index);
  void link_failures();
  int edge(int state, unsigned char byte) const;
  int advance(int state, unsigned char byte) const;

  std::vector<State> states_;
  bool include_stop_;
  std::string held_;  // exactly the bytes of the automaton's current state
  int state_ = 0;
  std::optional<size_t> matched_;
};

}  // namespace penstock
