#include "text/bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/rng.h"

namespace penstock {
namespace {

using Pair = std::pair<TokenId, TokenId>;

// Merges of a small alphabet: bytes 'a'.. are ids 0.., every merge makes a new id.
struct Table {
  int letters = 2;
  std::vector<Pair> pairs;  // best first; pair i becomes letters + i
  BpeMerges merges;

  void build() {
    merges.reserve(pairs.size());
    for (int i = 0; i < letters; ++i) merges.set_byte(static_cast<uint8_t>('a' + i), i);
    for (size_t i = 0; i < pairs.size(); ++i) {
      merges.add(pairs[i].first, pairs[i].second, letters + static_cast<TokenId>(i));
    }
  }
};

Table random_table(Rng& rng) {
  Table table;
  table.letters = 1 + static_cast<int>(rng.below(3));
  std::map<Pair, bool> seen;
  for (uint64_t i = 0, count = rng.below(30); i < count; ++i) {
    const auto known = static_cast<uint64_t>(table.letters) + table.pairs.size();
    const Pair pair(static_cast<TokenId>(rng.below(known)), static_cast<TokenId>(rng.below(known)));
    if (!std::exchange(seen[pair], true)) table.pairs.push_back(pair);
  }
  table.build();
  return table;
}

// By the definition: merge the best pair, leftmost first, until there is none.
std::vector<TokenId> oracle(const Table& table, const std::string& word) {
  std::vector<TokenId> ids;
  for (const char c : word) ids.push_back(c - 'a');
  for (;;) {
    size_t best = table.pairs.size(), at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      for (size_t rank = 0; rank < best; ++rank) {
        if (table.pairs[rank] == Pair(ids[i], ids[i + 1])) best = rank, at = i;
      }
    }
    if (best == table.pairs.size()) return ids;
    ids[at] = table.letters + static_cast<TokenId>(best);
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

TEST(Bpe, RandomMergesOfRandomWordsAsDefined) {
  BpeScratch scratch;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    const Table table = random_table(rng);
    std::string word;  // short words are scanned, long ones use the heap
    for (uint64_t i = 0, length = rng.below(120); i < length; ++i) {
      word.push_back(static_cast<char>('a' + rng.below(static_cast<uint64_t>(table.letters))));
    }
    std::vector<TokenId> ids;
    table.merges.encode(word, scratch, ids);
    ASSERT_EQ(ids, oracle(table, word)) << word;
  }
}

TEST(Bpe, BytesWithoutATokenAreDroppedBeforeMerging) {
  Table table{.letters = 2, .pairs = {{0, 1}}, .merges = {}};
  table.build();
  BpeScratch scratch;
  std::vector<TokenId> ids;
  table.merges.encode("xaxbx", scratch, ids);
  EXPECT_EQ(ids, std::vector<TokenId>{2});
  ids.clear();
  table.merges.encode("a" + std::string(100, 'x') + "b", scratch, ids);
  EXPECT_EQ(ids, std::vector<TokenId>{2});
}

TEST(Bpe, TheLastOfTwoMergesOfAPairCounts) {
  Table table{.letters = 3, .pairs = {{0, 1}, {1, 2}, {0, 1}}, .merges = {}};
  table.build();
  BpeScratch scratch;
  std::vector<TokenId> ids;
  table.merges.encode("abc", scratch, ids);  // (b, c) now comes before (a, b)
  EXPECT_EQ(ids, (std::vector<TokenId>{0, 4}));
}

// A megabyte in one word, with merges that halve it again and again, or that make every merge disturb both
// neighbours. The work is counted: what passes through the heap is at most three candidates a byte.
TEST(Bpe, TheWorkForOneLongWordIsLinear) {
  std::vector<std::vector<Pair>> tables(3);
  for (TokenId i = 0; i < 20; ++i) tables[0].emplace_back(i == 0 ? 0 : i + 1, i == 0 ? 0 : i + 1);
  for (TokenId i = 0; i < 20; ++i) tables[1].emplace_back(i == 0 ? 0 : i + 1, 0);  // aa, aaa, aaaa ...
  tables[2] = {{0, 1}, {1, 0}, {2, 2}, {3, 3}, {0, 3}, {2, 1}, {4, 4}, {5, 5}};
  Rng rng(1);
  std::string mixed;
  for (int i = 0; i < 1'000'000; ++i) mixed.push_back(static_cast<char>('a' + rng.below(2)));
  for (auto& pairs : tables) {
    Table table{.letters = 2, .pairs = std::move(pairs), .merges = {}};
    table.build();
    for (const std::string& word : {std::string(1'000'000, 'a'), mixed}) {
      BpeScratch scratch;
      std::vector<TokenId> ids;
      table.merges.encode(word, scratch, ids);
      EXPECT_FALSE(ids.empty());
      EXPECT_LE(scratch.heap_pushes, 3 * word.size());
    }
  }
}

}  // namespace
}  // namespace penstock
