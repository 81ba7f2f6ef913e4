#include "model/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/rng.h"
#include "tests/model/golden.h"
#include "tests/model/temp_dir.h"

namespace penstock {
namespace {

std::string file_of(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(data_bytes, 'x');
}

Result<std::vector<TensorView>> parse(const std::string& bytes) {
  return SafetensorsFile::parse(std::as_bytes(std::span(bytes)), "f.safetensors");
}

void expect_corrupt(const std::string& bytes, const std::string& part) {
  const auto result = parse(bytes);
  ASSERT_FALSE(result.ok()) << part;
  EXPECT_NE(result.message().find(part), std::string::npos) << result.message();
  EXPECT_EQ(result.message().find("f.safetensors: "), size_t{0}) << result.message();
}

constexpr const char* kTwo = R"({"__metadata__":{"format":"pt"},)"
                             R"("b":{"dtype":"BF16","shape":[2,3],"data_offsets":[8,20]},)"
                             R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

TEST(Safetensors, GivesTensorsByOffset) {
  const std::string bytes = file_of(kTwo, 20);
  const auto tensors = parse(bytes).value();
  ASSERT_EQ(tensors.size(), size_t{2});
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[1].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(tensors[1].dtype().value(), DType::kBf16);
  EXPECT_EQ(tensors[1].elements(), 6);
  EXPECT_EQ(tensors[1].offset, static_cast<int64_t>(8 + std::strlen(kTwo) + 8));
  EXPECT_EQ(reinterpret_cast<const char*>(tensors[1].data.data()), bytes.data() + tensors[1].offset);
}

TEST(Safetensors, AcceptsEmptyTensorsAndScalars) {
  const auto tensors = parse(file_of(R"({"e":{"dtype":"F32","shape":[0,4],"data_offsets":[4,4]},)"
                                     R"("s":{"dtype":"I64","shape":[],"data_offsets":[4,12]},)"
                                     R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                                     12))
                           .value();
  EXPECT_EQ(tensors[1].elements(), 0);
  EXPECT_EQ(tensors[2].elements(), 1);
  EXPECT_EQ(tensors[2].dtype().code(), Error::kUnsupported);
  EXPECT_TRUE(parse(file_of("{}", 0)).value().empty());
}

TEST(Safetensors, RefusesMalformedHeaders) {
  expect_corrupt("", "not even the header's length");
  expect_corrupt("1234567", "7 bytes");
  expect_corrupt(file_of("{}", 0).substr(0, 9), "a header of 2 bytes does not fit in a file of 9");
  std::string absurd = file_of("{}", 0);
  absurd[7] = '\x7f';
  expect_corrupt(absurd, "offset 0: a header of");
  expect_corrupt(file_of("[]", 0), "offset 8");
  expect_corrupt(file_of("{\"a\":", 0), "offset 14: the header is not valid JSON");
  expect_corrupt(file_of("{\"a\":1}", 0), "tensor \"a\": its header entry is not an object");
  expect_corrupt(file_of(R"({"a":{"shape":[],"data_offsets":[0,4]}})", 4), "no dtype");
  expect_corrupt(file_of(R"({"a":{"dtype":"F31","shape":[],"data_offsets":[0,4]}})", 4), "unknown dtype F31");
  expect_corrupt(file_of(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4), "shape");
  expect_corrupt(file_of(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4), "shape");
  expect_corrupt(file_of(R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4),
                 "at most 8");
  expect_corrupt(file_of(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0]}})", 4), "data_offsets");
  expect_corrupt(file_of(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                         R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
                         4),
                 "tensor \"a\" is in the header twice");
}

TEST(Safetensors, RefusesTensorsThatDoNotTileTheData) {
  expect_corrupt(file_of(kTwo, 19), "tensor \"b\": data_offsets [8,20] do not lie in the 19 bytes");
  expect_corrupt(file_of(kTwo, 21), "1 bytes behind the last tensor, at offset");
  const auto pair = [](const char* second) {
    return file_of(std::string(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)") +
                       R"("b":{"dtype":"F32","shape":[1],"data_offsets":)" + second + "}}",
                   12);
  };
  EXPECT_TRUE(parse(pair("[8,12]")).ok());
  expect_corrupt(pair("[4,8]"), "tensor \"b\" at offset");
  expect_corrupt(pair("[4,8]"), "overlaps");
  expect_corrupt(pair("[8,11]"), "3 bytes, but dtype and shape need 4");
  expect_corrupt(pair("[12,8]"), "data_offsets");
  expect_corrupt(pair("[8,18446744073709551615]"), "data_offsets");
  expect_corrupt(file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8), "a gap of 4 bytes");
  expect_corrupt(file_of(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", 4),
                 "product overflows");
  expect_corrupt(file_of(R"({"a":{"dtype":"F32","shape":[9223372036854775807,2],"data_offsets":[0,4]}})", 4),
                 "product overflows");
}

TEST(Safetensors, WritesWhatItReads) {
  const TempDir dir;
  const std::vector<float> f = {1, -2, 3.5F};
  const std::vector<Bf16> b = {to_bf16(1), to_bf16(0.1F)};
  auto writer =
      SafetensorsWriter::create(dir / "out", {{"x", DType::kF32, {3}}, {"y", DType::kBf16, {1, 2}}}).value();
  ASSERT_TRUE(writer.append(std::as_bytes(std::span(f))).ok());
  ASSERT_TRUE(writer.append(std::as_bytes(std::span(b))).ok());
  ASSERT_TRUE(writer.finish().ok());
  const auto file = SafetensorsFile::open(dir / "out").value();
  EXPECT_EQ(file.tensors().front().offset % 8, 0);
  ASSERT_NE(file.find("y"), nullptr);
  EXPECT_EQ(file.find("y")->shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(std::memcmp(file.find("x")->data.data(), f.data(), 12), 0);
  EXPECT_EQ(std::memcmp(file.find("y")->data.data(), b.data(), 4), 0);
  EXPECT_EQ(file.find("z"), nullptr);
}

TEST(Safetensors, SaysWhyAFileCannotBeOpened) {
  const TempDir dir;
  EXPECT_EQ(SafetensorsFile::open(dir / "none").code(), Error::kNotFound);
  EXPECT_FALSE(SafetensorsFile::open(dir.path()).ok());
  EXPECT_FALSE(SafetensorsWriter::create(dir / "none/x", {}).ok());
}

// Whatever happens to a file's bytes: an error or views inside the file, never a crash.
TEST(Safetensors, SurvivesMutation) {
  const uint64_t seed = 20261201;
  Rng rng(seed);
  const std::string good = file_of(kTwo, 20);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (uint64_t flips = rng.below(4); flips > 0; --flips) {
      bytes[rng.below(bytes.size())] = static_cast<char>(rng.below(256));
    }
    if (rng.below(4) == 0) bytes.resize(rng.below(bytes.size() + 1));
    const std::vector<char> exact(bytes.begin(), bytes.end());  // so that a sanitizer sees the file's end
    const auto result = SafetensorsFile::parse(std::as_bytes(std::span(exact)), "f");
    if (!result.ok()) continue;
    ++accepted;
    for (const TensorView& tensor : *result) {
      ASSERT_LE(tensor.offset + static_cast<int64_t>(tensor.data.size()), static_cast<int64_t>(exact.size()))
          << "seed " << seed << " round " << round;
      ASSERT_GE(tensor.elements(), 0);
    }
  }
  EXPECT_GT(accepted, 1000);  // the mutations are not all fatal
}

}  // namespace
}  // namespace penstock
