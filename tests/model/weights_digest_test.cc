#include "model/weights_digest.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/model/temp_dir.h"

namespace penstock {
namespace {

struct Tensor {
  std::string name;
  std::vector<float> values;
};

void write_tensors(const std::string& path, const std::vector<Tensor>& tensors) {
  std::vector<TensorSpec> specs;
  for (const Tensor& t : tensors)
    specs.push_back({t.name, DType::kF32, {static_cast<int64_t>(t.values.size())}});
  auto writer = SafetensorsWriter::create(path, specs).value();
  for (const Tensor& t : tensors) ASSERT_TRUE(writer.append(std::as_bytes(std::span(t.values))).ok());
  ASSERT_TRUE(writer.finish().ok());
}

uint64_t digest(const TempDir& dir, const ModelConfig& config = {}, DType dtype = DType::kBf16,
                int threads = 1) {
  ThreadPool pool(threads);
  return weights_digest(Checkpoint::open(dir.path()).value(), config, dtype, pool);
}

uint64_t digest_of(const std::vector<Tensor>& tensors) {
  const TempDir dir;
  write_tensors(dir / "model.safetensors", tensors);
  return digest(dir);
}

const std::vector<Tensor> kTensors = {{"a", {1, 2, 3, 4}}, {"b", {5, 6}}, {"c", {7, 8}}};

TEST(WeightsDigest, EveryValueNameAndShapeCounts) {
  std::set<uint64_t> seen = {digest_of(kTensors)};
  for (size_t t = 0; t < kTensors.size(); ++t) {
    for (size_t i = 0; i < kTensors[t].values.size(); ++i) {
      auto changed = kTensors;
      changed[t].values[i] = -changed[t].values[i];
      EXPECT_TRUE(seen.insert(digest_of(changed)).second) << changed[t].name << i;
    }
  }
  EXPECT_TRUE(seen.insert(digest_of({kTensors[0], {"b", {7, 8}}, {"c", {5, 6}}})).second) << "swapped";
  EXPECT_TRUE(seen.insert(digest_of({kTensors[0], {"b", {5, 6}}, {"d", {7, 8}}})).second) << "renamed";
  EXPECT_TRUE(seen.insert(digest_of({kTensors[0], {"b", {5, 6, 7, 8}}})).second) << "joined";
  EXPECT_FALSE(seen.contains(0));
}

TEST(WeightsDigest, FilesOrderAndThreadsDoNotCount) {
  const uint64_t expected = digest_of(kTensors);
  EXPECT_EQ(digest_of({kTensors[2], kTensors[0], kTensors[1]}), expected);
  const TempDir dir;
  write_tensors(dir / "x.safetensors", {kTensors[1]});
  write_tensors(dir / "y.safetensors", {kTensors[0], kTensors[2]});
  dir.write("model.safetensors.index.json",
            R"({"weight_map": {"a": "y.safetensors", "b": "x.safetensors", "c": "y.safetensors"}})");
  EXPECT_EQ(digest(dir), expected);
  EXPECT_EQ(digest(dir, {}, DType::kBf16, 3), expected);
}

TEST(WeightsDigest, DtypeAndConstantsCount) {
  const TempDir dir;
  write_tensors(dir / "model.safetensors", kTensors);
  std::set<uint64_t> seen = {digest(dir), digest(dir, {}, DType::kF32)};
  const auto with = [&](auto change) {
    ModelConfig config;
    change(config);
    return digest(dir, config);
  };
  seen.insert(with([](ModelConfig& c) { c.rms_norm_eps = 1e-5; }));
  seen.insert(with([](ModelConfig& c) { c.rope_theta = 1e5; }));
  seen.insert(with([](ModelConfig& c) { c.rope_llama3 = Llama3RopeScaling(); }));
  seen.insert(with([](ModelConfig& c) { c.rope_llama3 = Llama3RopeScaling{.factor = 32}; }));
  seen.insert(with([](ModelConfig& c) { c.heads = 8; }));
  seen.insert(with([](ModelConfig& c) { c.tied_embeddings = true; }));
  EXPECT_EQ(seen.size(), size_t{8});
  // What ends an answer, and how long it may be, is the router's and compared elsewhere.
  EXPECT_EQ(with([](ModelConfig& c) { c.eos_ids = {3}; }), digest(dir));
}

}  // namespace
}  // namespace penstock
