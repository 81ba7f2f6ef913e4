#include "kernels/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace penstock {
namespace {

TEST(Bf16, EveryValueSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Bf16 x{static_cast<uint16_t>(bits)};
    if (std::isnan(to_float(x))) {
      EXPECT_TRUE(std::isnan(to_float(to_bf16(to_float(x)))));
    } else {
      ASSERT_EQ(to_bf16(to_float(x)).bits, bits);
    }
  }
}

TEST(Bf16, RoundsToNearestTiesToEven) {
  const auto narrow = [](uint32_t bits) { return to_bf16(std::bit_cast<float>(bits)).bits; };
  EXPECT_EQ(narrow(0x3F800000), 0x3F80);
  EXPECT_EQ(narrow(0x3F807FFF), 0x3F80);
  EXPECT_EQ(narrow(0x3F808000), 0x3F80);  // tie, even stays
  EXPECT_EQ(narrow(0x3F818000), 0x3F82);  // tie, odd goes up
  EXPECT_EQ(narrow(0x3F808001), 0x3F81);
  EXPECT_EQ(narrow(0x7F7FFFFF), 0x7F80);  // overflows to infinity
  EXPECT_EQ(narrow(0xFF7FFFFF), 0xFF80);
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7F800001U)))));  // its bits all lie below
}

TEST(F16, EveryValueSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const F16 x{static_cast<uint16_t>(bits)};
    if (std::isnan(to_float(x))) {
      EXPECT_TRUE(std::isnan(to_float(to_f16(to_float(x)))));
    } else {
      ASSERT_EQ(to_f16(to_float(x)).bits, bits);
    }
  }
}

#ifdef __FLT16_MAX__
TEST(F16, EqualsTheCompilersConversion) {
  for (uint64_t bits = 0; bits < 0x100000000ULL; bits += 4093) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::isnan(x)) continue;
    ASSERT_EQ(to_f16(x).bits, std::bit_cast<uint16_t>(static_cast<_Float16>(x))) << std::hex << bits;
  }
}
#endif

TEST(F16, RoundsAtItsEdges) {
  EXPECT_EQ(to_f16(65504.0F).bits, 0x7BFF);
  EXPECT_EQ(to_f16(65519.99F).bits, 0x7BFF);
  EXPECT_EQ(to_f16(65520.0F).bits, 0x7C00);
  EXPECT_EQ(to_f16(0x1p-24F).bits, 1);
  EXPECT_EQ(to_f16(0x1p-25F).bits, 0);         // tie with zero
  EXPECT_EQ(to_f16(0x1.000002p-25F).bits, 1);  // just above
  EXPECT_EQ(to_f16(-0x1p-24F).bits, 0x8001);
  EXPECT_EQ(to_f16(0x1.FF8p-15F).bits, 0x03FF);  // the largest subnormal
}

TEST(DType, NamesParseBack) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16, DType::kI32}) {
    EXPECT_EQ(parse_dtype(dtype_name(dtype)), dtype);
  }
  EXPECT_EQ(parse_dtype("f64"), std::nullopt);
}

}  // namespace
}  // namespace penstock
