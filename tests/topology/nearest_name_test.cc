#include "topology/nearest_name.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock {
namespace {

TEST(EditDistance, KnownPairs) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("lisen", "listen"), 1U);
  EXPECT_EQ(edit_distance("same", "same"), 0U);
}

TEST(NearestName, FirstOfTheNearest) {
  const std::vector<std::string> known = {"threads", "listen", "level", "lease"};
  EXPECT_EQ(nearest_name("lisen", known), "listen");
  EXPECT_EQ(nearest_name("leve", known), "level");
  EXPECT_EQ(nearest_name("", std::vector<std::string>{"ab", "cd"}), "ab");
  EXPECT_EQ(nearest_name("x", {}), "");
}

}  // namespace
}  // namespace penstock
