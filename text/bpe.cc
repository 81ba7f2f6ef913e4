#include "text/bpe.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/rng.h"

namespace penstock {
namespace {

uint64_t pair_key(TokenId left, TokenId right) {
  return (uint64_t{static_cast<uint32_t>(left)} << 32) | static_cast<uint32_t>(right);
}

}  // namespace

void BpeMerges::reserve(size_t merges) {
  slots_.assign(std::bit_ceil(std::max<size_t>(16, merges * 2)), Slot());
  mask_ = slots_.size() - 1;
}

void BpeMerges::add(TokenId left, TokenId right, TokenId merged) {
  CHECK_LT(size_t{count_} * 2, slots_.size());
  const uint64_t key = pair_key(left, right);
  uint64_t at = mix64(key) & mask_;
  while (slots_[at].pair != kEmpty && slots_[at].pair != key) at = (at + 1) & mask_;
  slots_[at] = {key, count_, merged};
  ++count_;
}

const BpeMerges::Slot* BpeMerges::find(TokenId left, TokenId right) const {
  if (slots_.empty()) return nullptr;
  const uint64_t key = pair_key(left, right);
  for (uint64_t at = mix64(key) & mask_;; at = (at + 1) & mask_) {
    if (slots_[at].pair == key) return &slots_[at];
    if (slots_[at].pair == kEmpty) return nullptr;
  }
}

void BpeMerges::encode(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& ids) const {
  if (word.size() <= kShortWord) {
    encode_short(word, ids);
  } else {
    encode_long(word, scratch, ids);
  }
}

// Each round scans for the lowest rank and closes the gap: quadratic, but in two cache lines.
void BpeMerges::encode_short(std::string_view word, std::vector<TokenId>& ids) const {
  std::array<TokenId, kShortWord> symbols;
  std::array<uint32_t, kShortWord> ranks;   // of the pair (i, i + 1)
  std::array<TokenId, kShortWord> results;  // what that pair becomes
  size_t n = 0;
  for (const char c : word) {
    const TokenId id = byte_ids_[static_cast<uint8_t>(c)];
    if (id >= 0) symbols[n++] = id;
  }
  const auto look_up = [&](size_t i) {
    const Slot* slot = find(symbols[i], symbols[i + 1]);
    ranks[i] = slot != nullptr ? slot->rank : kNoRank;
    results[i] = slot != nullptr ? slot->merged : -1;
  };
  for (size_t i = 0; i + 1 < n; ++i) look_up(i);
  while (n > 1) {
    const auto best = std::min_element(ranks.begin(), ranks.begin() + n - 1);
    if (*best == kNoRank) break;
    const size_t i = static_cast<size_t>(best - ranks.begin());
    symbols[i] = results[i];
    std::copy(symbols.begin() + i + 2, symbols.begin() + n, symbols.begin() + i + 1);
    std::copy(ranks.begin() + i + 1, ranks.begin() + n - 1, ranks.begin() + i);
    std::copy(results.begin() + i + 1, results.begin() + n - 1, results.begin() + i);
    --n;
    if (i > 0) look_up(i - 1);
    if (i + 1 < n) look_up(i);
  }
  ids.insert(ids.end(), symbols.begin(), symbols.begin() + n);
}

// A linked list of symbols and a heap of candidate merges. A merge leaves stale candidates behind, which are
// known by their symbols having changed.
void BpeMerges::encode_long(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& ids) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  symbols.clear();
  heap.clear();
  for (const char c : word) {
    const TokenId id = byte_ids_[static_cast<uint8_t>(c)];
    const auto at = static_cast<int32_t>(symbols.size());
    if (id >= 0) symbols.push_back({id, at - 1, at + 1});
  }
  if (symbols.empty()) return;
  symbols.back().next = -1;
  const auto later = [](const BpeScratch::Candidate& a, const BpeScratch::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
  };
  const auto consider = [&](int32_t left) {
    if (left < 0 || symbols[left].next < 0) return;
    const TokenId a = symbols[left].id, b = symbols[symbols[left].next].id;
    const Slot* slot = find(a, b);
    if (slot == nullptr) return;
    heap.push_back({slot->rank, left, a, b, slot->merged});
    std::push_heap(heap.begin(), heap.end(), later);
    ++scratch.heap_pushes;
  };
  for (int32_t i = 0; i < static_cast<int32_t>(symbols.size()); ++i) consider(i);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const BpeScratch::Candidate top = heap.back();
    heap.pop_back();
    BpeScratch::Symbol& left = symbols[top.position];
    if (left.id != top.left || left.next < 0 || symbols[left.next].id != top.right) continue;
    symbols[left.next].id = -1;  // dead: no candidate names it any more
    left.next = symbols[left.next].next;
    left.id = top.merged;
    if (left.next >= 0) symbols[left.next].previous = top.position;
    consider(left.previous);
    consider(top.position);
  }
  for (int32_t i = 0; i >= 0; i = symbols[i].next) ids.push_back(symbols[i].id);
}

}  // namespace penstock
