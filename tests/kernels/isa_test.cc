#include "kernels/isa.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

namespace penstock {
namespace {

class IsaTest : public testing::Test {
 protected:
  ~IsaTest() override { unsetenv("PENSTOCK_ISA"); }
};

TEST_F(IsaTest, NamesRoundTrip) {
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16, Isa::kAmxBf16}) {
    EXPECT_EQ(parse_isa(isa_name(isa)), isa);
  }
  EXPECT_EQ(parse_isa("sse9"), std::nullopt);
}

TEST_F(IsaTest, AvailableStartsPortableAndRises) {
  const std::vector<Isa>& isas = available_isas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.front(), Isa::kPortable);
  EXPECT_TRUE(std::ranges::is_sorted(isas));
  EXPECT_EQ(choose_isa(std::nullopt).value(), isas.back());
}

TEST_F(IsaTest, EnvironmentForcesALevelAndTheArgumentWins) {
  setenv("PENSTOCK_ISA", "portable", 1);
  EXPECT_EQ(choose_isa(std::nullopt).value(), Isa::kPortable);
  EXPECT_EQ(choose_isa(available_isas().back()).value(), available_isas().back());
}

TEST_F(IsaTest, UnknownNameIsAnErrorThatListsTheKnown) {
  setenv("PENSTOCK_ISA", "avx1024", 1);
  const Result<Isa> isa = choose_isa(std::nullopt);
  ASSERT_FALSE(isa.ok());
  EXPECT_EQ(isa.code(), Error::kInvalidArgument);
  EXPECT_NE(isa.message().find("avx512bf16"), std::string::npos) << isa.message();
}

TEST_F(IsaTest, ALevelTheMachineLacksIsAnErrorThatListsWhatItHas) {
  if (available_isas().back() == Isa::kAmxBf16) return;  // this machine lacks nothing
  const Result<Isa> isa = choose_isa(Isa::kAmxBf16);
  ASSERT_FALSE(isa.ok());
  EXPECT_EQ(isa.code(), Error::kUnsupported);
  EXPECT_NE(isa.message().find(isa_name(available_isas().back())), std::string::npos) << isa.message();
}

}  // namespace
}  // namespace penstock
