// Byte-pair encoding of one word: bytes to token ids by merging the best-ranked pair, leftmost first.
//
// BpeMerges is immutable and shared. BpeScratch is a thread's working memory, reused from word to word.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace penstock {

struct BpeScratch {
  struct Symbol {
    TokenId id;
    int32_t previous, next;
  };
  struct Candidate {
    uint32_t rank;
    int32_t position;
    TokenId left, right, merged;
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
  uint64_t heap_pushes = 0;  // of all words so far: the work that must stay linear
};

class BpeMerges {
 public:
  BpeMerges() { byte_ids_.fill(-1); }
  void set_byte(uint8_t byte, TokenId id) { byte_ids_[byte] = id; }
  bool has_byte(uint8_t byte) const { return byte_ids_[byte] >= 0; }
  void reserve(size_t merges);
  // Rank is the order of the calls. The last of two merges of one pair counts, as in the reference. Call
  // reserve() before.
  void add(TokenId left, TokenId right, TokenId merged);

  // Appends the ids of `word`. Bytes without a token are dropped before merging, as the reference does.
  // O(n log n) for long words: less than 3 n candidates pass through the heap.
  void encode(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& ids) const;

 private:
  struct Slot {
    uint64_t pair = kEmpty;
    uint32_t rank = 0;
    TokenId merged = 0;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  static constexpr uint32_t kNoRank = ~uint32_t{0};
  static constexpr size_t kShortWord = 40;  // up to here a scan beats the heap

  const Slot* find(TokenId left, TokenId right) const;
  void encode_short(std::string_view word, std::vector<TokenId>& ids) const;
  void encode_long(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& ids) const;

  std::array<TokenId, 256> byte_ids_;
  std::vector<Slot> slots_;  // open addressing, at most half full
  uint64_t mask_ = 0;
  uint32_t count_ = 0;
};

}  // namespace penstock
