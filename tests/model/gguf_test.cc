#include "model/gguf.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/rng.h"
#include "tests/model/gguf_builder.h"

namespace penstock {
namespace {

Result<GgufFile> parse(const std::string& bytes) {
  return GgufFile::parse(std::as_bytes(std::span(bytes)), "f.gguf");
}

void expect_failure(const std::string& bytes, const std::string& part) {
  const auto result = parse(bytes);
  ASSERT_FALSE(result.ok()) << part;
  EXPECT_NE(result.message().find(part), std::string::npos) << result.message();
  EXPECT_EQ(result.message().find("f.gguf: "), size_t{0}) << result.message();
}

GgufBuilder small() {
  GgufBuilder builder;
  builder.string("name", "tiny").u32("count", 7).f32("eps", 1e-5F).boolean("flag", true);
  builder.strings("words", {"a", "", "ccc"}).i32s("types", {1, -2, 3});
  builder.scalar("wide", GgufValueType::kUint64, std::numeric_limits<uint64_t>::max());
  builder.scalar("byte", GgufValueType::kInt8, int8_t{-5});
  builder.f32_tensor("w", {2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  builder.tensor("q", 8, {1, 32}, std::string(34, '\1'));
  return builder;
}

TEST(Gguf, ReadsMetadataAndTensors) {
  const std::string bytes = small().build();
  const GgufFile file = parse(bytes).value();
  EXPECT_EQ(file.string("name").value(), "tiny");
  EXPECT_EQ(file.integer("count").value(), 7);
  EXPECT_EQ(file.integer("byte").value(), -5);
  EXPECT_EQ(file.number("eps").value(), double{1e-5F});
  EXPECT_EQ(file.number("count").value(), 7.0);
  EXPECT_TRUE(file.boolean("flag").value());
  EXPECT_EQ(file.strings("words").value(), (std::vector<std::string_view>{"a", "", "ccc"}));
  EXPECT_EQ(file.integers("types").value(), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(file.find_integer("none").value(), std::nullopt);
  ASSERT_EQ(file.tensors().size(), size_t{2});
  const GgufTensor& w = *file.find("w");
  EXPECT_EQ(w.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(w.offset % 32, 0);
  EXPECT_EQ(reinterpret_cast<const float*>(w.data.data())[5], 6);
  EXPECT_EQ(file.find("q")->type, GgufType::kQ8_0);
  EXPECT_EQ(file.find("x"), nullptr);
  EXPECT_TRUE(parse(small().build(2)).ok());
}

TEST(Gguf, NamesMissingAndMistypedKeys) {
  const std::string bytes = small().build();
  const GgufFile file = parse(bytes).value();
  EXPECT_EQ(file.integer("none").message(), "f.gguf: the metadata key none is missing");
  EXPECT_EQ(file.integer("name").message(), "f.gguf: the metadata key name is not an integer");
  EXPECT_FALSE(file.integer("wide").ok());  // beyond int64
  EXPECT_FALSE(file.string("count").ok());
  EXPECT_FALSE(file.boolean("count").ok());
  EXPECT_FALSE(file.number("name").ok());
  EXPECT_FALSE(file.strings("types").ok());
  EXPECT_FALSE(file.integers("words").ok());
}

TEST(Gguf, RefusesOtherFormatsAndVersions) {
  expect_failure("", "not a GGUF file");
  expect_failure("GGML....", "not a GGUF file");
  expect_failure("GGUF", "version");
  expect_failure(small().build(1), "GGUF version 1 is not supported");
  expect_failure(small().build(0x03000000), "big-endian");
  GgufBuilder q5k;
  q5k.tensor("w", 13, {1, 256}, std::string(176, '\0'));
  expect_failure(q5k.build(), "tensor \"w\" is of Q5_K (13)");
}

TEST(Gguf, RefusesCountsAndSizesBeyondTheFile) {
  const GgufBuilder builder = small();
  expect_failure(builder.build(3, 1ULL << 60, 8), "cannot fit in");
  expect_failure(builder.build(3, 2, 1ULL << 60), "cannot fit in");
  expect_failure(builder.build(3, 2, 7), "offset");  // the eighth entry read as a tensor
  GgufBuilder strings;
  strings.strings("s", {"x"});
  std::string bytes = strings.build();
  const size_t count_at = 24 + 8 + 1 + 4 + 4;
  bytes[count_at + 6] = 1;
  expect_failure(bytes, "metadata key s: an array of");
  bytes = strings.build();
  bytes[count_at + 8 + 5] = 1;
  expect_failure(bytes, "metadata key s: a string of");
  GgufBuilder nested;
  nested.scalar("n", GgufValueType::kArray, uint32_t{9}).scalar("x", GgufValueType::kUint64, uint64_t{0});
  expect_failure(nested.build(), "an array of value type 9");
  GgufBuilder unknown;
  unknown.scalar("n", static_cast<GgufValueType>(77), uint32_t{0});
  expect_failure(unknown.build(), "unknown value type 77");
}

TEST(Gguf, RefusesBadTensors) {
  const std::string data(128, '\0');
  const auto one = [&](uint32_t type, const std::vector<uint64_t>& shape, int64_t offset = -1) {
    return GgufBuilder().tensor("w", type, shape, data, offset).build();
  };
  EXPECT_TRUE(parse(one(0, {8, 4})).ok());
  expect_failure(one(0, {8, 5}), "tensor \"w\" needs 160 bytes, but the file ends at");
  expect_failure(one(0, {1ULL << 40, 1ULL << 40}), "overflows");
  expect_failure(one(0, {1ULL << 62}), "needs");
  expect_failure(one(0, {0, 4}), "a dimension of 0");
  expect_failure(one(0, {~0ULL}), "a dimension of");
  expect_failure(one(0, {}), "0 dimensions");
  expect_failure(one(0, {1, 1, 1, 1, 1}), "5 dimensions");
  expect_failure(one(8, {2, 31}), "not whole blocks of Q8_0");
  expect_failure(one(0, {8, 4}, 16), "not a multiple of the alignment");
  expect_failure(one(0, {8, 4}, 1LL << 50), "outside the file");
  GgufBuilder twice;
  twice.tensor("w", 0, {8, 4}, data).tensor("w", 0, {8, 4}, data);
  expect_failure(twice.build(), "tensor \"w\" is there twice");
  GgufBuilder overlap;
  overlap.tensor("a", 0, {8, 4}, data).tensor("b", 0, {8, 4}, data, 96);
  expect_failure(overlap.build(), "tensor \"b\" overlaps \"a\"");
  GgufBuilder key_twice;
  key_twice.u32("k", 1).u32("k", 2);
  expect_failure(key_twice.build(), "metadata key k is there twice");
  for (const uint32_t alignment : {0U, 24U, 4U, 1U << 30}) {
    expect_failure(GgufBuilder().u32("general.alignment", alignment).build(), "general.alignment");
  }
}

// Every prefix of a good file is an error, except those that only lose padding behind the last tensor.
TEST(Gguf, RefusesEveryTruncation) {
  const std::string good = small().build();
  const size_t needed = good.size() - (64 - 34);
  for (size_t size = 0; size < good.size(); ++size) {
    const std::vector<char> exact(good.begin(), good.begin() + static_cast<int64_t>(size));
    EXPECT_EQ(GgufFile::parse(std::as_bytes(std::span(exact)), "f").ok(), size >= needed) << size;
  }
}

// Whatever happens to a file's bytes: an error or views inside the file, never a crash.
TEST(Gguf, SurvivesMutation) {
  const uint64_t seed = 20261202;
  Rng rng(seed);
  const std::string good = small().build();
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (uint64_t flips = rng.below(4); flips > 0; --flips) {
      bytes[rng.below(bytes.size())] = static_cast<char>(rng.below(2) == 0 ? rng.below(256) : rng.below(12));
    }
    if (rng.below(4) == 0) bytes.resize(rng.below(bytes.size() + 1));
    const std::vector<char> exact(bytes.begin(), bytes.end());
    const auto result = GgufFile::parse(std::as_bytes(std::span(exact)), "f");
    if (!result.ok()) continue;
    ++accepted;
    for (const GgufTensor& tensor : result->tensors()) {
      ASSERT_LE(tensor.offset + static_cast<int64_t>(tensor.data.size()), static_cast<int64_t>(exact.size()))
          << "seed " << seed << " round " << round;
      std::vector<float> values(static_cast<size_t>(tensor.elements()));
      dequantize(tensor.type, tensor.data, values);
    }
    for (const char* key : {"words", "types", "name", "count"}) {
      static_cast<void>(result->strings(key));
      static_cast<void>(result->integers(key));
      static_cast<void>(result->string(key));
    }
  }
  EXPECT_GT(accepted, 1000);
}

}  // namespace
}  // namespace penstock
