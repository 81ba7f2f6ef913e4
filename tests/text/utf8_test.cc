#include "text/utf8.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

std::string repaired(std::string_view bytes) {
  std::string out;
  append_repaired_utf8(bytes, out);
  return out;
}

TEST(Utf8, EveryCodePointThereAndBack) {
  for (uint32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    append_utf8(c, text);
    const Utf8Step step = decode_utf8(text);
    ASSERT_EQ(step.state, Utf8State::kWhole) << c;
    ASSERT_EQ(step.code_point, c);
    ASSERT_EQ(step.length, text.size());
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const Utf8Step part = decode_utf8(std::string_view(text).substr(0, cut));
      ASSERT_EQ(part.state, Utf8State::kIncomplete) << c;
      ASSERT_EQ(part.length, cut);
    }
  }
}

// The tables of chapter 3 of the Unicode standard (3-8 to 3-11), one U+FFFD for each maximal ill-formed part.
TEST(Utf8, MaximalIllFormedParts) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", "........A"},  // not the shortest form
      {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", "........A"},  // surrogates
      {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", ".....A..B"},  // beyond U+10FFFF, stray bytes
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", "....A"},      // cut short
      {"\xE2\x82", "."},                                      // the end of the text cuts
      {"\xF0\x9F\x98", "."},
      {"a\xC3", "a."},
      {"\xC3\xA9\xC3", "\xC3\xA9."},
  };
  for (const auto& [bytes, pattern] : cases) {
    std::string expected;
    for (const char c : pattern) c == '.' ? expected.append(kReplacement) : expected.append(1, c);
    EXPECT_EQ(repaired(bytes), expected);
    EXPECT_FALSE(is_valid_utf8(bytes));
    EXPECT_TRUE(is_valid_utf8(expected));
  }
}

}  // namespace
}  // namespace penstock
