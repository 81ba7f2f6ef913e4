// What every tokenizer is held to: vectors made by the reference, one row at a time.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/rng.h"
#include "tests/text/golden.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace penstock {

inline void expect_stream(const Tokenizer& tokenizer, const golden::Json& row) {
  Detokenizer detokenizer(tokenizer);
  std::vector<std::string> pieces;
  for (const TokenId id : golden::ids(row, "ids")) pieces.push_back(detokenizer.push(id));
  EXPECT_EQ(pieces, row.at("pieces").get<std::vector<std::string>>());
  EXPECT_EQ(detokenizer.flush(), row.at("flush").get<std::string>());
  EXPECT_EQ(tokenizer.decode(golden::ids(row, "ids")), row.at("decoded").get<std::string>());
}

// A small tokenizer of a known style. The normalizer of the Qwen 2 style (NFC) is left out: we refuse it.
inline Tokenizer load_style(const std::string& style) {
  const std::string file = golden::path(style + "_tokenizer.json");
  golden::Json json = golden::Json::parse(golden::read(file));
  json["normalizer"] = nullptr;
  return Tokenizer::from_json(json.dump(), file).value();
}

inline void expect_streams(const Tokenizer& tokenizer, const std::string& file, size_t count) {
  const auto rows = golden::lines(file);
  EXPECT_EQ(rows.size(), count);
  for (const golden::Json& row : rows) {
    SCOPED_TRACE(row.dump());
    expect_stream(tokenizer, row);
    if (testing::Test::HasFailure()) return;  // one broken row says enough
  }
}

// Random ids, across the vocabulary and beyond: whole code points come out, and together what decode() gives.
inline void expect_streams_of_random_ids(const Tokenizer& tokenizer, uint64_t seed, int rounds) {
  Rng rng(seed);
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const SkipSpecial skip = rng.below(2) == 0 ? SkipSpecial::kNo : SkipSpecial::kYes;
    Detokenizer detokenizer(tokenizer, skip);
    std::vector<TokenId> ids;
    std::string text;
    for (uint64_t i = 0, count = 1 + rng.below(30); i < count; ++i) {
      ids.push_back(static_cast<TokenId>(rng.between(-1, tokenizer.vocab_size())));
      const std::string piece = detokenizer.push(ids.back());
      ASSERT_TRUE(is_valid_utf8(piece));
      text += piece;
    }
    ASSERT_EQ(text + detokenizer.flush(), tokenizer.decode(ids, skip));
  }
}

// Ids in both modes and what they decode to. Returns the number of rows held to that.
inline size_t expect_ids(Tokenizer& tokenizer, const std::string& file, bool skip_denormalized = false) {
  size_t held = 0;
  for (const golden::Json& row : golden::lines(file)) {
    const auto text = row.at("text").get<std::string>();
    // The reference gives back the normalised text.
    if (skip_denormalized && row.at("decoded").get<std::string>() != text) continue;
    ++held;
    SCOPED_TRACE(row.at("text").dump());
    const auto ids = golden::ids(row, "ids");
    EXPECT_EQ(tokenizer.encode(text, ParseSpecial::kYes).value(), ids);
    EXPECT_EQ(tokenizer.encode(text, ParseSpecial::kNo).value(), golden::ids(row, "ids_no_special"));
    if (row.contains("ids_with_template")) {
      EXPECT_EQ(tokenizer.encode(text, ParseSpecial::kYes, AddSpecial::kYes).value(),
                golden::ids(row, "ids_with_template"));
    }
    EXPECT_EQ(tokenizer.decode(ids, SkipSpecial::kYes), row.at("decoded_skip_special").get<std::string>());
    expect_stream(tokenizer, row);
    if (testing::Test::HasFailure()) break;
  }
  return held;
}

}  // namespace penstock
