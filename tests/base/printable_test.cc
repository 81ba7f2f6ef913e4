#include "base/printable.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Printable, TextPasses) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("node-1 \"x\" \\ ~"), "node-1 \"x\" \\ ~");
  EXPECT_EQ(printable("Zürich 東京 \U0001F600"), "Zürich 東京 \U0001F600");
}

TEST(Printable, ControlCharactersAreEscaped) {
  EXPECT_EQ(printable("a\nb\r\tc"), "a\\x0ab\\x0d\\x09c");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\x1b[2J\x7f"), "\\x1b[2J\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");  // C1: an escape sequence in one character
}

TEST(Printable, BytesThatAreNoUtf8AreEscaped) {
  EXPECT_EQ(printable("\xff"), "\\xff");
  EXPECT_EQ(printable("\xe6\x9d"), "\\xe6\\x9d");           // cut short
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");           // overlong
  EXPECT_EQ(printable("\xe0\x80\x8a"), "\\xe0\\x80\\x8a");  // an overlong line feed
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80z"), "\\xf4\\x90\\x80\\x80z");
  EXPECT_EQ(printable("\xc3x"), "\\xc3x");
}

}  // namespace
}  // namespace penstock
