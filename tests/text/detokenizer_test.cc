#include "text/detokenizer.h"

#include <map>

#include "base/rng.h"
#include "tests/text/vectors.h"
#include "text/utf8.h"

namespace penstock {
namespace {

std::string repaired(std::string_view bytes) {
  std::string out;
  append_repaired_utf8(bytes, out);
  return out;
}

TEST(Detokenizer, StreamsEqualTheReferencePieceByPiece) {
  for (const char* style : {"gpt2", "llama3", "qwen2"}) {
    SCOPED_TRACE(style);
    expect_streams(load_style(style), std::string(style) + "_stream.jsonl", 60);
  }
}

TEST(Detokenizer, RandomIdsInWholeCodePoints) {
  for (const char* style : {"gpt2", "llama3", "qwen2"}) {
    SCOPED_TRACE(style);
    expect_streams_of_random_ids(load_style(style), 20261204, 5000);
  }
}

// A tokenizer whose tokens are single bytes makes any byte string a stream.
class ByteStreams : public testing::Test {
 protected:
  ByteStreams() : tokenizer_(load_style("gpt2")) {
    for (TokenId id = 0; id < tokenizer_.vocab_size(); ++id) {
      const std::string_view bytes = tokenizer_.token_bytes(id);
      if (bytes.size() == 1) ids_[static_cast<uint8_t>(bytes[0])] = id;
    }
  }
  TokenId id(uint8_t byte) const { return ids_.at(byte); }

  static std::string pushed(Detokenizer& detokenizer, std::initializer_list<TokenId> ids) {
    std::string text;
    for (const TokenId token : ids) detokenizer.push(token, text);
    return text;
  }

  Tokenizer tokenizer_;
  std::map<uint8_t, TokenId> ids_;
};

TEST_F(ByteStreams, AnyBytesInAnyOrder) {
  // Mostly bytes that begin or go on with characters, so that cuts of all kinds are common.
  constexpr uint8_t kBytes[] = {0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC2, 0xDF, 0xE0,
                                0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xC0, 0xFF};
  Rng rng(20261201);
  for (int round = 0; round < 20'000; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Detokenizer detokenizer(tokenizer_);
    std::vector<TokenId> ids;
    std::string bytes, text;
    const uint64_t length = 1 + rng.below(12);
    for (uint64_t i = 0; i < length; ++i) {
      const uint8_t byte = kBytes[rng.below(std::size(kBytes))];
      ids.push_back(id(byte));
      bytes.push_back(static_cast<char>(byte));
      detokenizer.push(ids.back(), text);
      ASSERT_TRUE(is_valid_utf8(text));
      // Whatever comes next, what was emitted stays.
      for (const std::string_view next : {"a", "\x80", "\xBF\xBF\xBF", "\x90\x80\x80", "\xC3"}) {
        ASSERT_EQ(repaired(bytes + std::string(next)).substr(0, text.size()), text);
      }
      // And nothing is held back but the start of a character.
      ASSERT_EQ(detokenizer.holds_back(),
                repaired(bytes + "a") == text + std::string(kReplacement) + "a" || repaired(bytes) != text);
    }
    text += detokenizer.flush();
    ASSERT_EQ(text, repaired(bytes));
    ASSERT_EQ(text, tokenizer_.decode(ids));
    ASSERT_FALSE(detokenizer.holds_back());
  }
}

TEST_F(ByteStreams, TheEndOfAStreamCanDropACutCharacter) {
  Detokenizer detokenizer(tokenizer_);
  EXPECT_EQ(detokenizer.push(id('a')), "a");
  EXPECT_EQ(detokenizer.push(id(0xE2)), "");
  EXPECT_EQ(detokenizer.push(id(0x82)), "");
  EXPECT_TRUE(detokenizer.holds_back());
  detokenizer.discard();
  EXPECT_EQ(detokenizer.flush(), "");
  EXPECT_EQ(detokenizer.push(id(0xAC)), kReplacement);  // as new: the rest of the euro sign begins nothing
}

TEST_F(ByteStreams, SpecialTokensAreTextOrSkipped) {
  const TokenId special = tokenizer_.find_token("<|endoftext|>").value();
  ASSERT_TRUE(tokenizer_.is_special(special));
  Detokenizer shown(tokenizer_), skipped(tokenizer_, SkipSpecial::kYes);
  EXPECT_EQ(pushed(shown, {special}), "<|endoftext|>");
  EXPECT_EQ(pushed(skipped, {special}), "");
  EXPECT_EQ(pushed(shown, {id(0xC3), special}), std::string(kReplacement) + "<|endoftext|>");
  // Skipped, it does not even come between the halves of a character: decode() joins them too.
  EXPECT_EQ(pushed(skipped, {id(0xC3), special, id(0xA9)}), "\xC3\xA9");
  EXPECT_EQ(tokenizer_.decode(std::vector{id(0xC3), special, id(0xA9)}, SkipSpecial::kYes), "\xC3\xA9");
}

TEST_F(ByteStreams, AnIdOutsideTheVocabularyAddsNothing) {
  Detokenizer detokenizer(tokenizer_);
  EXPECT_EQ(pushed(detokenizer, {-1, tokenizer_.vocab_size()}), "");
  EXPECT_EQ(detokenizer.flush(), "");
}

}  // namespace
}  // namespace penstock
