#include "model/dequantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "kernels/dtype.h"
#include "tests/model/golden.h"

namespace penstock {
namespace {

void put_f16(std::vector<uint8_t>& block, size_t at, float value) {
  const uint16_t bits = to_f16(value).bits;
  std::memcpy(block.data() + at, &bits, 2);
}

std::vector<float> expand(GgufType type, const std::vector<uint8_t>& blocks) {
  const GgufTypeInfo& info = *find_gguf_type(static_cast<uint32_t>(type));
  std::vector<float> out(blocks.size() / static_cast<size_t>(info.block_bytes) *
                         static_cast<size_t>(info.block_elements));
  dequantize(type, std::as_bytes(std::span(blocks)), out);
  return out;
}

TEST(Dequantize, EqualsTheReferenceBitForBit) {
  const golden::Npz reference(golden::path("dequantize.npz"));
  for (const GgufType type :
       {GgufType::kF32, GgufType::kF16, GgufType::kBf16, GgufType::kQ8_0, GgufType::kQ4_0, GgufType::kQ4_1,
        GgufType::kQ5_0, GgufType::kQ5_1, GgufType::kQ4K, GgufType::kQ6K}) {
    const std::string name(gguf_type_name(static_cast<uint32_t>(type)));
    const auto values = expand(type, reference.array<uint8_t>(name + "_blocks"));
    const auto expected = reference.array<float>(name + "_values");
    ASSERT_EQ(values.size(), expected.size()) << name;
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(expected[i])) {
        EXPECT_TRUE(std::isnan(values[i])) << name << " element " << i;
      } else {
        EXPECT_EQ(values[i], expected[i]) << name << " element " << i;  // -0 and 0 are the same weight
      }
    }
  }
}

TEST(Dequantize, Q41ByHand) {
  std::vector<uint8_t> block(20, 0);
  put_f16(block, 0, 0.5F);
  put_f16(block, 2, -3.0F);
  block[4] = 0xF1;   // element 0: 1, element 16: 15
  block[19] = 0x72;  // element 15: 2, element 31: 7
  const auto values = expand(GgufType::kQ4_1, block);
  EXPECT_EQ(values[0], 0.5F * 1 - 3);
  EXPECT_EQ(values[16], 0.5F * 15 - 3);
  EXPECT_EQ(values[15], 0.5F * 2 - 3);
  EXPECT_EQ(values[31], 0.5F * 7 - 3);
  EXPECT_EQ(values[1], -3.0F);
}

TEST(Dequantize, Q50TakesTheFifthBitOfEachElement) {
  std::vector<uint8_t> block(22, 0);
  put_f16(block, 0, 2.0F);
  block[2 + 2] = 0x01;  // bit 16: element 16
  block[6] = 0x35;      // element 0: 5, element 16: 3 | 16
  const auto values = expand(GgufType::kQ5_0, block);
  EXPECT_EQ(values[0], 2.0F * (5 - 16));
  EXPECT_EQ(values[16], 2.0F * (19 - 16));
  EXPECT_EQ(values[1], 2.0F * -16);
}

TEST(Dequantize, Q4KUnpacksSixBitScalesAndMinimums) {
  std::vector<uint8_t> block(144, 0);
  put_f16(block, 0, 1.0F);
  put_f16(block, 2, 2.0F);
  block[4 + 5] = 0x40 | 9;    // minimum of group 1: 9; its top bits belong to the minimum of group 5: 1
  block[4 + 1] = 0xC0 | 33;   // scale of group 1: 33; top bits of the scale of group 5: 3
  block[4 + 9] = 0xA7;        // group 5: scale low bits 7, minimum low bits 10
  block[16 + 3] = 0xB0;       // group 1, element 3: 11
  block[16 + 64 + 3] = 0xC0;  // group 5, element 3: 12
  const auto values = expand(GgufType::kQ4K, block);
  EXPECT_EQ(values[32 + 3], 33.0F * 11 - 2.0F * 9);
  EXPECT_EQ(values[160 + 3], static_cast<float>(7 | 3 << 4) * 12 - 2.0F * static_cast<float>(10 | 1 << 4));
  EXPECT_EQ(values[0], 0.0F);
}

TEST(Dequantize, Q6KJoinsLowAndHighBits) {
  std::vector<uint8_t> block(210, 0);
  put_f16(block, 208, 0.25F);
  block[192 + 4] = static_cast<uint8_t>(-3);  // scale of elements 64..79
  block[0] = 0xA0;                            // element 64: low bits 10
  block[128] = 0x30;                          // element 64: high bits 3
  const auto values = expand(GgufType::kQ6K, block);
  EXPECT_EQ(values[64], 0.25F * -3 * static_cast<float>((10 | 3 << 4) - 32));
}

TEST(Dequantize, NamesTypesItCannotExpand) {
  EXPECT_EQ(find_gguf_type(13), nullptr);
  EXPECT_EQ(gguf_type_name(13), "Q5_K");
  EXPECT_EQ(gguf_type_name(4711), "an unknown type");
}

}  // namespace
}  // namespace penstock
