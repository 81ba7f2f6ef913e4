// A bounded cache from words to their ids: one 64-byte line a word, direct-mapped, so that a hit costs one
// miss of memory at most and a full cache needs no policy.
//
// Belongs to one thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/rng.h"

namespace penstock {

class WordCache {
 public:
  static constexpr size_t kSlots = size_t{1} << 15;  // 2 MB
  static constexpr size_t kWordMax = 30, kIdsMax = 8;

  struct alignas(64) Slot {
    TokenId ids[kIdsMax];
    uint8_t count;  // of ids; 0: empty slot (words of which every byte is dropped are not cached)
    uint8_t length;
    char word[kWordMax];
  };

  WordCache() : slots_(kSlots) {}
  static bool fits(std::string_view word) { return word.size() <= kWordMax; }

  // The slot of a word that fits; it holds that word if holds() says so.
  Slot& slot(std::string_view word) {
    uint64_t parts[4] = {};
    std::memcpy(parts, word.data(), word.size());
    const uint64_t hash = mix64(parts[0] ^ mix64(parts[1] ^ mix64(parts[2] ^ mix64(parts[3] ^ word.size()))));
    return slots_[hash & (kSlots - 1)];
  }
  static bool holds(const Slot& slot, std::string_view word) {
    return slot.count > 0 && slot.length == word.size() &&
           std::memcmp(slot.word, word.data(), word.size()) == 0;
  }
  static void store(Slot& slot, std::string_view word, std::span<const TokenId> ids) {
    if (ids.empty() || ids.size() > kIdsMax) return;
    slot.count = static_cast<uint8_t>(ids.size());
    slot.length = static_cast<uint8_t>(word.size());
    std::memcpy(slot.word, word.data(), word.size());
    std::memcpy(slot.ids, ids.data(), ids.size_bytes());
  }

 private:
  std::vector<Slot> slots_;
};

}  // namespace penstock
