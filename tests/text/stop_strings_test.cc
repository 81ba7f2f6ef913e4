#include "text/stop_strings.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace penstock {
namespace {

struct Expected {
  std::string shown;
  std::optional<size_t> matched;
  size_t end = 0;  // of the stop string in the text
};

// By trying every end and every stop string.
Expected oracle(const std::string& text, const std::vector<std::string>& stops, bool include_stop) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::optional<size_t> longest;
    for (size_t i = 0; i < stops.size(); ++i) {
      const size_t length = stops[i].size();
      if (length == 0 || length > end || text.compare(end - length, length, stops[i]) != 0) continue;
      if (!longest || length > stops[*longest].size()) longest = i;
    }
    if (longest) return {text.substr(0, include_stop ? end : end - stops[*longest].size()), longest, end};
  }
  return {text, std::nullopt, text.size()};
}

// The most that may be held back: the longest end of the text with which a stop string begins.
size_t longest_beginning(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t length = text.size(); length > 0; --length) {
    for (const std::string& stop : stops) {
      if (stop.size() > length && text.compare(text.size() - length, length, stop, 0, length) == 0)
        return length;
    }
  }
  return 0;
}

std::string random_text(Rng& rng, uint64_t length, uint64_t letters) {
  std::string text;
  for (uint64_t i = 0; i < length; ++i) text.push_back(static_cast<char>('a' + rng.below(letters)));
  return text;
}

void expect_as_oracle(Rng& rng) {
  std::vector<std::string> stops;
  const uint64_t letters = 2 + rng.below(2), count = rng.below(5);
  for (uint64_t i = 0; i < count; ++i) stops.push_back(random_text(rng, rng.below(6), letters));
  const bool include_stop = rng.below(2) == 1;
  const std::string text = random_text(rng, rng.below(30), letters);
  const Expected expected = oracle(text, stops, include_stop);
  StopStrings stream(stops, include_stop);
  std::string shown;
  size_t pushed = 0;
  while (pushed < text.size()) {
    const size_t length = std::min(text.size() - pushed, size_t{rng.below(5)});
    const bool stopped = stream.push(text.substr(pushed, length), shown);
    pushed += length;
    ASSERT_EQ(stopped, expected.matched.has_value() && expected.end <= pushed);
    if (stopped) break;
    const std::string so_far = text.substr(0, pushed);
    ASSERT_EQ(stream.held_bytes(), longest_beginning(so_far, stops));
    ASSERT_EQ(shown, so_far.substr(0, pushed - stream.held_bytes()));
  }
  if (!stream.stopped()) stream.flush(shown);
  ASSERT_EQ(shown, expected.shown);
  ASSERT_EQ(stream.matched(), expected.matched);
  ASSERT_EQ(stream.held_bytes(), 0u);
}

TEST(StopStrings, AnyCutOfAnyTextAsTheOracle) {
  for (uint64_t seed = 0; seed < 100'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    expect_as_oracle(rng);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(StopStrings, HeldBackAndReleased) {
  StopStrings stream({"\n\nUser:"});
  std::string shown;
  EXPECT_FALSE(stream.push("one\n\nUs", shown));
  EXPECT_EQ(shown, "one");
  EXPECT_EQ(stream.held_bytes(), 4u);
  EXPECT_FALSE(stream.push("ually\n", shown));
  EXPECT_EQ(shown, "one\n\nUsually");
  EXPECT_EQ(stream.held_bytes(), 1u);
  stream.flush(shown);
  EXPECT_EQ(shown, "one\n\nUsually\n");
}

TEST(StopStrings, WhatComesAfterIsSwallowed) {
  StopStrings stream({"stop", "top"});
  std::string shown;
  EXPECT_TRUE(stream.push("a stop b", shown));
  EXPECT_TRUE(stream.push("more", shown));
  stream.flush(shown);
  EXPECT_EQ(shown, "a ");
  EXPECT_EQ(stream.matched(), 0u);  // both end here: the longest
}

TEST(StopStrings, WithoutAnyNothingIsHeld) {
  StopStrings stream({"", ""});
  std::string shown;
  EXPECT_FALSE(stream.push("text", shown));
  EXPECT_EQ(shown, "text");
  EXPECT_EQ(stream.held_bytes(), 0u);
}

// A megabyte against a stop string that almost matches everywhere; quadratic work would outlast the test.
TEST(StopStrings, LinearWhateverTheText) {
  const std::string almost(100'000, 'a');
  StopStrings stream({almost + "b"});
  std::string shown;
  EXPECT_FALSE(stream.push(std::string(1'000'000, 'a'), shown));
  EXPECT_EQ(stream.held_bytes(), almost.size());
  EXPECT_TRUE(stream.push("b", shown));
  EXPECT_EQ(shown.size(), 900'000u);
}

}  // namespace
}  // namespace penstock
