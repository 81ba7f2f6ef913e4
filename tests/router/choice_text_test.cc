#include "router/choice_text.h"

#include <gtest/gtest.h>

#include "tests/router/tiny_model.h"

namespace penstock::router {
namespace {

class ChoiceTextTest : public ::testing::Test {
 protected:
  std::vector<TokenId> ids(const std::string& text) {
    return tokenizer_.encode(text, ParseSpecial::kYes).value();
  }

  // Pushes all; stops where a stop string is found. Everything that came out, and the end's rest.
  TextDelta run(const std::vector<TokenId>& tokens, const GenerationOptions& options,
                bool* stopped = nullptr) {
    ChoiceText choice(tokenizer_, options);
    TextDelta out;
    bool found = false;
    for (const TokenId id : tokens) {
      GeneratedToken token;
      token.token = id;
      token.is_stop_id = id == TinyModel::kTurnEnd;
      found = choice.push(token, out);
      // What is out may never be taken back: pieces and text agree at every moment.
      EXPECT_EQ(joined(out).compare(0, joined(out).size(), out.text, 0, joined(out).size()), 0);
      if (found) break;
    }
    choice.finish(out);
    if (stopped != nullptr) *stopped = found;
    return out;
  }

  static std::string joined(const TextDelta& delta) {
    std::string text;
    for (const ShownToken& token : delta.tokens) text += token.piece;
    return text;
  }

  TinyModel model_;
  Tokenizer tokenizer_ = model_.tokenizer();
};

TEST_F(ChoiceTextTest, PiecesJoinToTheText) {
  const std::string text = "Hello wörld, 你好 \xF0\x9F\x98\x80!";
  const TextDelta out = run(ids(text), {});
  EXPECT_EQ(out.text, text);
  EXPECT_EQ(joined(out), text);
}

TEST_F(ChoiceTextTest, TextOffsetsCountCodePoints) {
  const TextDelta out = run(ids("é1é2"), {});
  ASSERT_GE(out.tokens.size(), 2u);
  size_t code_points = 0;
  for (const ShownToken& token : out.tokens) {
    EXPECT_EQ(token.text_offset, code_points);
    for (const char c : token.piece) code_points += (c & 0xC0) != 0x80;
  }
  EXPECT_EQ(code_points, 4u);
}

TEST_F(ChoiceTextTest, Case12CharacterCutAtTheEndIsDropped) {
  std::vector<TokenId> tokens = ids("a\xF0\x9F\xA6\x84");
  ASSERT_GT(tokens.size(), 2u) << "the emoji must take several tokens";
  tokens.pop_back();
  const TextDelta out = run(tokens, {});
  EXPECT_EQ(out.text, "a");
  EXPECT_EQ(out.tokens.size(), tokens.size()) << "its tokens still count";
}

TEST_F(ChoiceTextTest, Case21PossibleStopIsHeldBackAndReleased) {
  GenerationOptions options;
  options.stop = {"DEFGHIJ"};
  bool stopped = true;
  EXPECT_EQ(run(ids("the alphabet: ABCDEFG and so on"), options, &stopped).text,
            "the alphabet: ABCDEFG and so on");
  EXPECT_FALSE(stopped);
  EXPECT_EQ(run(ids("ABCDEFG"), options, &stopped).text, "ABCDEFG") << "released at the end";
  const TextDelta out = run(ids("ABCDEFGHIJKL"), options, &stopped);
  EXPECT_TRUE(stopped);
  EXPECT_EQ(out.text, "ABC");
  EXPECT_EQ(joined(out), "ABC");
}

TEST_F(ChoiceTextTest, StopInsideATokenCutsItsPiece) {
  const std::vector<TokenId> tokens = ids(" the");
  ASSERT_EQ(tokens.size(), 1u);
  GenerationOptions options;
  options.stop = {"he"};
  bool stopped = false;
  const TextDelta out = run(tokens, options, &stopped);
  EXPECT_TRUE(stopped);
  EXPECT_EQ(out.text, " t");
  ASSERT_EQ(out.tokens.size(), 1u);
  EXPECT_EQ(out.tokens[0].piece, " t");
}

TEST_F(ChoiceTextTest, SpecialTokensAreSkippedOrShown) {
  std::vector<TokenId> tokens = ids("a");
  tokens.push_back(TinyModel::kTurnStart);
  const std::vector<TokenId> b = ids("b");
  tokens.insert(tokens.end(), b.begin(), b.end());
  tokens.push_back(TinyModel::kTurnEnd);
  EXPECT_EQ(run(tokens, {}).text, "ab");
  GenerationOptions options;
  options.skip_special_tokens = false;
  const TextDelta out = run(tokens, options);
  EXPECT_EQ(out.text, "a<|start_header_id|>b") << "the token that ended it is never shown";
  EXPECT_EQ(out.tokens.size(), 4u);
  EXPECT_EQ(out.tokens.back().piece, "");
}

}  // namespace
}  // namespace penstock::router
