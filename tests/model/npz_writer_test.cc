#include "model/npz_writer.h"

#include <gtest/gtest.h>

#include "tests/model/golden.h"
#include "tests/model/temp_dir.h"

namespace penstock {
namespace {

TEST(NpzWriter, WritesArraysThatReadBack) {
  const TempDir dir;
  auto writer = NpzWriter::create(dir / "a.npz").value();
  const std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {-1};
  ASSERT_TRUE(writer.begin("logits_0", {2, 3}).ok());
  ASSERT_TRUE(writer.append(std::span(a).first(3)).ok());
  ASSERT_TRUE(writer.append(std::span(a).subspan(3)).ok());
  ASSERT_TRUE(writer.begin("logits_1", {1}).ok());
  ASSERT_TRUE(writer.append(b).ok());
  ASSERT_TRUE(writer.finish().ok());
  const golden::Npz read(dir / "a.npz");
  EXPECT_EQ(read.arrays(), size_t{2});
  EXPECT_EQ(read.array<float>("logits_0"), a);
  EXPECT_EQ(read.array<float>("logits_1"), b);
  EXPECT_NE(read.header("logits_0").find("'shape': (2, 3, )"), std::string::npos);
  EXPECT_EQ((10 + read.header("logits_0").size()) % 64, size_t{0});
}

// CRC-32 of "123456789" is 0xCBF43926 (the check value of the polynomial); here over a whole .npy, as zip
// tools compute it.
TEST(NpzWriter, ChecksumIsPutIntoTheHeader) {
  const TempDir dir;
  auto writer = NpzWriter::create(dir / "a.npz").value();
  const std::vector<float> values(100, 0.5F);
  ASSERT_TRUE(writer.begin("x", {100}).ok());
  ASSERT_TRUE(writer.append(values).ok());
  ASSERT_TRUE(writer.finish().ok());
  const std::string bytes = golden::read(dir / "a.npz");
  const std::string npy = bytes.substr(30 + 5, 128 + 400);
  uint32_t crc = 0xFFFFFFFF;
  for (const char c : npy) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320U : 0U);
  }
  uint32_t stored = 0;
  std::memcpy(&stored, bytes.data() + 14, 4);
  EXPECT_EQ(stored, ~crc);
}

TEST(NpzWriter, RefusesArchivesBeyondTheFormat) {
  const TempDir dir;
  auto writer = NpzWriter::create(dir / "a.npz").value();
  const auto status = writer.begin("x", {1 << 20, 1 << 11});
  EXPECT_EQ(status.code(), Error::kInvalidArgument);
  EXPECT_NE(status.message().find("beyond 4 GB"), std::string::npos);
  EXPECT_FALSE(NpzWriter::create(dir / "none/a.npz").ok());
}

}  // namespace
}  // namespace penstock
