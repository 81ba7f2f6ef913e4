#include "text/added_tokens.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

using Pieces = std::vector<std::pair<std::string, TokenId>>;

Pieces split(const AddedTokens& tokens, std::string_view text, const std::vector<TextRange>& special_ranges) {
  Pieces pieces;
  for (const TextSegment& segment : tokens.split(text, special_ranges)) {
    pieces.emplace_back(text.substr(segment.range.begin, segment.range.end - segment.range.begin),
                        segment.id);
  }
  return pieces;
}

Pieces split(const AddedTokens& tokens, std::string_view text) {
  return split(tokens, text, {{0, text.size()}});
}

AddedToken token(const std::string& content, TokenId id) {
  AddedToken added;
  added.content = content;
  added.id = id;
  return added;
}

AddedToken special(const std::string& content, TokenId id) {
  AddedToken added = token(content, id);
  added.special = true;
  return added;
}

TEST(AddedTokens, TheLongestOfTheFirst) {
  const AddedTokens tokens({token("ab", 1), token("abc", 2), token("bcd", 3), token("", 4), token("ab", 5)});
  EXPECT_EQ(split(tokens, "xabcd"), (Pieces{{"x", -1}, {"abc", 2}, {"d", -1}}));
  EXPECT_EQ(split(tokens, "abab"), (Pieces{{"ab", 1}, {"ab", 1}}));
  EXPECT_EQ(split(tokens, "abx"), (Pieces{{"ab", 1}, {"x", -1}}));
  EXPECT_EQ(split(tokens, ""), Pieces());
}

TEST(AddedTokens, NormalizedOnesAreFoundInWhatTheOthersLeave) {
  AddedToken normalized = token("abc", 1);
  normalized.normalized = true;
  const AddedTokens tokens({normalized, token("bc", 2)});
  EXPECT_EQ(split(tokens, "abc"), (Pieces{{"a", -1}, {"bc", 2}}));
  EXPECT_EQ(split(tokens, "abcabc").size(), 4u);
  EXPECT_EQ(split(AddedTokens({normalized}), "xabcx"), (Pieces{{"x", -1}, {"abc", 1}, {"x", -1}}));
}

TEST(AddedTokens, StripsSwallowWhiteSpaceOfAllKinds) {
  AddedToken left = token("<l>", 1), right = token("<r>", 2);
  left.left_strip = true;
  right.right_strip = true;
  const AddedTokens tokens({left, right});
  EXPECT_EQ(split(tokens, "a \n\u3000<l> b"), (Pieces{{"a", -1}, {" \n\u3000<l>", 1}, {" b", -1}}));
  EXPECT_EQ(split(tokens, "a <r>\t\u2003b"), (Pieces{{"a ", -1}, {"<r>\t\u2003", 2}, {"b", -1}}));
  EXPECT_EQ(split(tokens, "<r>  <l>"), (Pieces{{"<r>  ", 2}, {"<l>", 1}}));  // swallowed once
}

TEST(AddedTokens, SingleWordsStandAlone) {
  AddedToken word = token("foo", 1);
  word.single_word = true;
  const AddedTokens tokens({word});
  EXPECT_EQ(split(tokens, "foo.foo"), (Pieces{{"foo", 1}, {".", -1}, {"foo", 1}}));
  for (const std::string text : {"foox", "xfoo", "_foo", "foo1", "fooé", "foo\u0301", "foo\u200D"}) {
    EXPECT_EQ(split(tokens, text), (Pieces{{text, -1}})) << text;
  }
  EXPECT_EQ(split(tokens, "½foo☃"), (Pieces{{"½", -1}, {"foo", 1}, {"☃", -1}}));
}

TEST(AddedTokens, SpecialOnesInsideTheRangesOnly) {
  const AddedTokens tokens({special("<s>", 1), special("<s>x", 2), token("s>", 3)});
  const std::string text = "<s><s>x<s>";
  EXPECT_EQ(split(tokens, text, {{0, 3}, {7, 10}}), (Pieces{{"<s>", 1}, {"<s>x", -1}, {"<s>", 1}}));
  // Skipped whole: no other token is found in it.
  EXPECT_EQ(split(tokens, "a<s>b", {}), (Pieces{{"a<s>b", -1}}));
  // The longer one reaches out of the template's text; the shorter does not.
  EXPECT_EQ(split(tokens, "<s>x", {{0, 3}}), (Pieces{{"<s>", 1}, {"x", -1}}));
  // Half from the template: text, in which a token that is not special is found.
  EXPECT_EQ(split(tokens, "<s>", {{0, 2}}), (Pieces{{"<", -1}, {"s>", 3}}));
  EXPECT_EQ(split(tokens, "<s>", {{0, 1}, {2, 3}}), (Pieces{{"<", -1}, {"s>", 3}}));
  // What begins in the request's text does not swallow the template's token behind it.
  const AddedTokens overlap({special("ab<s>", 1), special("<s>", 2)});
  EXPECT_EQ(split(overlap, "ab<s>", {{2, 5}}), (Pieces{{"ab", -1}, {"<s>", 2}}));
}

}  // namespace
}  // namespace penstock
