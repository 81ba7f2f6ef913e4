#include "model/checkpoint.h"

#include <gtest/gtest.h>

#include "tests/model/temp_dir.h"

namespace penstock {
namespace {

void write_tensors(const std::string& path, const std::vector<std::string>& names, float value) {
  std::vector<TensorSpec> specs;
  for (const std::string& name : names) specs.push_back({name, DType::kF32, {2}});
  auto writer = SafetensorsWriter::create(path, specs).value();
  const std::vector<float> data = {value, value + 1};
  for (size_t i = 0; i < names.size(); ++i) ASSERT_TRUE(writer.append(std::as_bytes(std::span(data))).ok());
  ASSERT_TRUE(writer.finish().ok());
}

TEST(Checkpoint, OneFile) {
  const TempDir dir;
  write_tensors(dir / "model.safetensors", {"a", "b"}, 1);
  const auto checkpoint = Checkpoint::open(dir.path()).value();
  EXPECT_EQ(checkpoint.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(checkpoint.bytes(), 16);
  EXPECT_TRUE(checkpoint.contains("b"));
  EXPECT_EQ(checkpoint.find("b", {2}).value().data.size(), size_t{8});
  const auto missing = checkpoint.find("c", {2});
  EXPECT_NE(missing.message().find("model.safetensors: tensor \"c\" is missing"), std::string::npos);
  const auto wrong = checkpoint.find("b", {1, 2});
  EXPECT_NE(wrong.message().find("shape [2], but config.json needs [1, 2]"), std::string::npos)
      << wrong.message();
  EXPECT_NE(wrong.message().find("at offset"), std::string::npos);
}

TEST(Checkpoint, Shards) {
  const TempDir dir;
  write_tensors(dir / "model-00001-of-00002.safetensors", {"a"}, 1);
  write_tensors(dir / "model-00002-of-00002.safetensors", {"b", "c"}, 5);
  dir.write("model.safetensors.index.json",
            R"({"weight_map": {"a": "model-00001-of-00002.safetensors",
                "b": "model-00002-of-00002.safetensors", "c": "model-00002-of-00002.safetensors"}})");
  const auto checkpoint = Checkpoint::open(dir.path()).value();
  EXPECT_EQ(checkpoint.names().size(), size_t{3});
  const TensorView c = checkpoint.find("c", {2}).value();
  EXPECT_EQ(reinterpret_cast<const float*>(c.data.data())[0], 5);
}

TEST(Checkpoint, RefusesBrokenIndexes) {
  const TempDir dir;
  EXPECT_EQ(Checkpoint::open(dir.path()).code(), Error::kNotFound);
  write_tensors(dir / "s1", {"a"}, 1);
  write_tensors(dir / "s2", {"a"}, 1);
  const auto expect = [&](const char* index, const char* part) {
    dir.write("model.safetensors.index.json", index);
    const auto result = Checkpoint::open(dir.path());
    ASSERT_FALSE(result.ok()) << part;
    EXPECT_NE(result.message().find(part), std::string::npos) << result.message();
  };
  expect("{", "not valid JSON");
  expect("{}", "weight_map");
  expect(R"({"weight_map": {"a": 1}})", "must name a file of this folder");
  expect(R"({"weight_map": {"a": "../s1"}})", "must name a file of this folder");
  expect(R"({"weight_map": {"a": "s3"}})", "s3: cannot open");
  expect(R"({"weight_map": {"a": "s1", "b": "s1"}})", "s1: tensor \"b\"");
  expect(R"({"weight_map": {"a": "s1", "b": "s2"}})", "is in another shard too");
}

TEST(Checkpoint, RefusesUnalignedTensors) {
  const TempDir dir;
  const std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}} )";  // 55 bytes
  const uint64_t length = header.size();
  dir.write("model.safetensors",
            std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(4, '\0'));
  const auto result = Checkpoint::open(dir.path()).value().find("a", {1});
  EXPECT_EQ(result.code(), Error::kUnsupported);
  EXPECT_NE(result.message().find("not aligned"), std::string::npos) << result.message();
}

}  // namespace
}  // namespace penstock
