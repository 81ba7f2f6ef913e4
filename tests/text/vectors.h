// What every tokenizer is held to: vectors made by the reference, one row at a time.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/text/golden.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace penstock {

inline void expect_stream(const Tokenizer& tokenizer, const golden::Json& row) {
  Detokenizer detokenizer(tokenizer);
  std::vector<std::string> pieces;
  for (const TokenId id : golden::ids(row, "ids")) pieces.push_back(detokenizer.push(id));
  EXPECT_EQ(pieces, row.at("pieces").get<std::vector<std::string>>());
  EXPECT_EQ(detokenizer.flush(), row.at("flush").get<std::string>());
  EXPECT_EQ(tokenizer.decode(golden::ids(row, "ids")), row.at("decoded").get<std::string>());
}

inline void expect_vectors(Tokenizer& tokenizer, const std::string& vectors, const std::string& streams,
                           size_t vector_count, size_t stream_count) {
  const auto rows = golden::lines(vectors);
  EXPECT_EQ(rows.size(), vector_count);
  for (const golden::Json& row : rows) {
    const auto text = row.at("text").get<std::string>();
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
    if (testing::Test::HasFailure()) return;  // one broken row says enough
  }
  const auto stream_rows = golden::lines(streams);
  EXPECT_EQ(stream_rows.size(), stream_count);
  for (const golden::Json& row : stream_rows) {
    SCOPED_TRACE(row.dump());
    expect_stream(tokenizer, row);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace penstock
