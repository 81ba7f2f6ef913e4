#include "base/result.h"

#include <gtest/gtest.h>

#include "base/ids.h"

namespace penstock {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return fail(Error::kInvalidArgument, "odd");
  return n / 2;
}

Result<int> quarter(int n) {
  ASSIGN_OR_RETURN(const int h, half(n));
  ASSIGN_OR_RETURN(const int q, half(h).with_context("second half"));
  return q;
}

TEST(Result, CarriesValueOrFailure) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(3).message(), "odd");
  EXPECT_EQ(quarter(6).message(), "second half: odd");
  EXPECT_EQ(quarter(6).code(), Error::kInvalidArgument);
}

TEST(Result, ReadingAMissingValueAborts) { EXPECT_DEATH(static_cast<void>(half(1).value()), "odd"); }

TEST(Check, PrintsBothValues) {
  EXPECT_DEATH(CHECK_EQ(1 + 1, 3), "1 \\+ 1 == 3 \\(2 vs 3\\)");
  EXPECT_DEATH(CHECK_EQ(NodeId(4), NodeId(5)), "4 vs 5");
}

}  // namespace
}  // namespace penstock
