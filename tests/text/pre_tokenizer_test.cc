#include "text/pre_tokenizer.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

PreTokenizer with_patterns(std::initializer_list<std::string_view> patterns) {
  PreTokenizer pre;
  for (const std::string_view pattern : patterns) pre.add_step({Regex::compile(pattern).value()});
  return pre;
}

std::vector<std::string> words_of(const PreTokenizer& pre, std::string_view text) {
  Regex::Scratch scratch;
  std::vector<std::string_view> words;
  EXPECT_TRUE(pre.split(text, scratch, words).ok());
  return {words.begin(), words.end()};
}

TEST(PreTokenizer, StepsCutThePiecesOfTheOnesBefore) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(words_of(PreTokenizer(), "as it is"), (Words{"as it is"}));
  EXPECT_EQ(words_of(with_patterns({PreTokenizer::kGpt2Pattern}), "it's 12  x\n"),
            (Words{"it", "'s", " 12", " ", " x", "\n"}));
  EXPECT_EQ(words_of(with_patterns({R"(\p{N})", PreTokenizer::kGpt2Pattern}), "it's 12  x"),
            (Words{"it", "'s", " ", "1", "2", " ", " x"}));
  PreTokenizer removed;
  removed.add_step({Regex::compile(Regex::quote("--")).value(), false, true});
  EXPECT_EQ(words_of(removed, "a--b-c--"), (Words{"a", "b-c"}));
}

TEST(PreTokenizer, AnEmptyMatchCutsNothing) {
  EXPECT_EQ(words_of(with_patterns({"x*"}), "aé€xxb"), (std::vector<std::string>{"aé€", "xx", "b"}));
}

std::string repeated(std::string_view unit, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += unit;
  return text;
}

// A megabyte that could make a backtracking matcher quadratic. The work is bounded by counting: words made,
// times the steps that a single match may take before it gives up.
TEST(PreTokenizer, TheWorkIsLinearWhateverTheText) {
  constexpr size_t kBytes = 1'000'000;
  const struct {
    std::string text;
    size_t words_max;
    uint32_t steps_a_match;
  } cases[] = {
      {repeated("a", kBytes), 1, 100},
      {repeated("é", kBytes), 1, 100},
      {repeated(" ", kBytes), 1, 3 * kBytes},
      {repeated(" ", kBytes) + "x", 2, 3 * kBytes},
      {repeated("\n", kBytes), 1, 3 * kBytes},
      {repeated(" \n", kBytes), 2, 3 * kBytes},
      {repeated("\xF0\x9F\x98\x80", kBytes), 1, 100},
      {repeated("\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB", kBytes), 1, 100},
      {repeated("7", kBytes), kBytes, 50},
      {repeated("a1", kBytes), kBytes, 50},
      {repeated("'s", kBytes), kBytes / 2, 50},
      {repeated("  x", kBytes), kBytes, 50},
      {repeated("'", kBytes), 1, 100},
  };
  for (const PreTokenizer& pre :
       {with_patterns({PreTokenizer::kGpt2Pattern}), with_patterns({R"(\p{N})", PreTokenizer::kGpt2Pattern}),
        with_patterns({kLlama3Pattern})}) {
    for (const auto& c : cases) {
      SCOPED_TRACE(c.text.substr(0, 12));
      Regex::Scratch scratch(c.steps_a_match);
      std::vector<std::string_view> words;
      const Status status = pre.split(c.text, scratch, words);
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_LE(words.size(), c.words_max);
    }
  }
}

TEST(PreTokenizer, ARegexThatBacktracksWithoutEndGivesUp) {
  const PreTokenizer pre = with_patterns({"(?:a|aa)+[bc]"});
  Regex::Scratch scratch;
  std::vector<std::string_view> words;
  const Status status = pre.split(std::string(200, 'a'), scratch, words);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Error::kResourceExhausted);
  EXPECT_NE(status.message().find("at byte 0"), std::string::npos) << status.message();
}

TEST(Regex, WhatTheEnginesReadDifferentlyIsRefused) {
  for (const char* pattern : {R"(\h+)", R"([a-z&&[^b]])"}) {
    const auto regex = Regex::compile(pattern);
    ASSERT_FALSE(regex.ok()) << pattern;
    EXPECT_EQ(regex.code(), Error::kUnsupported);
  }
  const auto broken = Regex::compile("a(b");
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.code(), Error::kInvalidArgument);
  EXPECT_NE(broken.message().find("at byte 3"), std::string::npos) << broken.message();
}

}  // namespace
}  // namespace penstock
