// The forward pass on tiny models with random weights: against Transformers' logits, and against itself in
// other batches.
#include "model/llama.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "model/safetensors.h"
#include "tests/model/golden.h"
#include "tests/model/loaded_model.h"
#include "tests/model/temp_dir.h"

namespace penstock {
namespace {

constexpr const char* kModels[] = {"llama_tied", "llama_rope3"};

std::vector<TokenId> prompt(const golden::Npz& reference, int i) {
  return reference.array<TokenId>("prompt" + std::to_string(i) + "_ids");
}

TEST(Llama, LogitsEqualTheReference) {
  for (const char* name : kModels) {
    const golden::Npz reference(golden::path(std::string(name) + "/golden.npz"));
    for (const Isa isa : available_isas()) {
      LoadedModel loaded(golden::path(name), {.dtype = DType::kF32, .isa = isa});
      SequenceRunner runner = loaded.runner(KvDtype::kF32);
      for (int i = 0; i < 5; ++i) {
        const std::string key = "prompt" + std::to_string(i);
        const auto positions = reference.array<int32_t>(key + "_positions");
        const auto expected = reference.array<float>(key + "_logits");
        const auto rows = all_logits(runner, prompt(reference, i));
        double worst = 0;
        for (size_t p = 0; p < positions.size(); ++p) {
          const auto& row = rows.at(static_cast<size_t>(positions[p]));
          for (size_t v = 0; v < row.size(); ++v) {
            worst = std::max(worst, std::abs(double{row[v]} - expected[p * row.size() + v]));
          }
        }
        EXPECT_LE(worst, 2e-4) << name << " " << isa_name(isa) << " prompt " << i;
      }
    }
  }
}

TEST(Llama, GreedyIdsEqualTheReference) {
  for (const char* name : kModels) {
    const golden::Npz reference(golden::path(std::string(name) + "/golden.npz"));
    LoadedModel loaded(golden::path(name), {.dtype = DType::kF32});
    SequenceRunner runner = loaded.runner(KvDtype::kF32);
    for (int i = 0; i < 5; ++i) {
      const auto expected = reference.array<TokenId>("greedy" + std::to_string(i) + "_ids");
      std::vector<TokenId> next = prompt(reference, i), generated;
      runner.reset();
      while (generated.size() < expected.size()) {
        ASSERT_TRUE(runner
                        .feed(next, SequenceRunner::Logits::kLast,
                              [&](int64_t, std::span<const float> row) { next = {argmax(row)}; })
                        .ok());
        generated.push_back(next.front());
      }
      EXPECT_EQ(generated, expected) << name << " prompt " << i;
    }
  }
}

// A row of logits is the same, bit for bit, whether its prompt came whole, in chunks of any size, or token by
// token, for every instruction set, weight type and cache type.
TEST(Llama, ChunksDoNotChangeABit) {
  const golden::Npz reference(golden::path("llama_tied/golden.npz"));
  const auto tokens = prompt(reference, 4);
  for (const Isa isa : available_isas()) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      const KvDtype kv_dtype = dtype == DType::kF32 ? KvDtype::kF32 : KvDtype::kBf16;
      LoadedModel loaded(golden::path("llama_tied"),
                         {.dtype = dtype, .isa = isa, .threads = 2, .rows_max = 100});
      SequenceRunner whole = loaded.runner(kv_dtype, 100);
      const auto expected = all_logits(whole, tokens);
      for (const int64_t chunk : {1, 2, 7, 33, 64}) {
        SequenceRunner runner = loaded.runner(kv_dtype, chunk);
        EXPECT_EQ(all_logits(runner, tokens), expected)
            << isa_name(isa) << " " << dtype_name(dtype) << " chunks of " << chunk;
      }
    }
  }
}

// Several sequences in one pool; each feeds the rows it is given.
class Batch {
 public:
  Batch(LoadedModel& loaded, int sequences, KvDtype kv_dtype) : loaded_(loaded) {
    pool_.layout = kv_layout_of(loaded.model->config(), 64, kv_dtype);
    pool_.blocks = 2 * sequences;
    memory_ = loaded.device->allocate(pool_.layout.pool_bytes(pool_.blocks)).value();
    pool_.base = memory_.data();
    for (uint32_t i = 0; i < static_cast<uint32_t>(sequences); ++i) {
      tables_.push_back({2 * i + 1, 2 * static_cast<uint32_t>(sequences - 1) - 2 * i});  // interleaved
    }
    fed_.resize(static_cast<size_t>(sequences));
  }
  struct Part {
    size_t sequence;
    std::vector<TokenId> tokens;
  };
  // The last row's logits of each part, in one forward.
  std::vector<std::vector<float>> step(const std::vector<Part>& parts) {
    std::vector<TokenId> tokens;
    std::vector<int32_t> positions, logit_rows;
    std::vector<SequenceSlice> slices;
    for (const Part& part : parts) {
      const auto rows = static_cast<int64_t>(part.tokens.size());
      int64_t& fed = fed_[part.sequence];
      slices.push_back({static_cast<int64_t>(tokens.size()), rows, fed, tables_[part.sequence]});
      for (const TokenId token : part.tokens) {
        tokens.push_back(token);
        positions.push_back(static_cast<int32_t>(fed++));
      }
      logit_rows.push_back(static_cast<int32_t>(tokens.size()) - 1);
    }
    const int64_t vocab = loaded_.model->config().vocab_size;
    std::vector<float> logits(logit_rows.size() * static_cast<size_t>(vocab));
    loaded_.model->forward(*loaded_.stream, {tokens, positions, slices, logit_rows}, pool_,
                           {logits.data(), static_cast<int64_t>(logit_rows.size()), vocab}, {});
    std::vector<std::vector<float>> rows;
    for (size_t i = 0; i < logit_rows.size(); ++i) {
      const auto first = logits.begin() + static_cast<int64_t>(i) * vocab;
      rows.emplace_back(first, first + vocab);
    }
    return rows;
  }

 private:
  LoadedModel& loaded_;
  KvPoolView pool_;
  DeviceBuffer memory_;
  std::vector<std::vector<uint32_t>> tables_;
  std::vector<int64_t> fed_;
};

TEST(Llama, CompanyDoesNotChangeABit) {
  const golden::Npz reference(golden::path("llama_rope3/golden.npz"));
  std::vector<std::vector<TokenId>> prompts;
  for (int i = 0; i < 5; ++i) prompts.push_back(prompt(reference, i));
  for (const Isa isa : available_isas()) {
    LoadedModel loaded(golden::path("llama_rope3"),
                       {.dtype = DType::kBf16, .isa = isa, .threads = 2, .rows_max = 256});
    SequenceRunner alone = loaded.runner(KvDtype::kBf16);
    Batch batch(loaded, 5, KvDtype::kBf16);
    // Prefill of 0, 1, 2 together; then decode of these beside the prefill of 3; then all but 1 beside 4.
    const auto first = batch.step({{2, prompts[2]}, {0, prompts[0]}, {1, prompts[1]}});
    EXPECT_EQ(first[0], all_logits(alone, prompts[2]).back()) << isa_name(isa);
    EXPECT_EQ(first[1], all_logits(alone, prompts[0]).back());
    EXPECT_EQ(first[2], all_logits(alone, prompts[1]).back());
    for (int i = 0; i < 3; ++i) prompts[static_cast<size_t>(i)].push_back(17 + i);
    const auto second = batch.step({{0, {17}}, {3, prompts[3]}, {1, {18}}, {2, {19}}});
    EXPECT_EQ(second[0], all_logits(alone, prompts[0]).back());
    EXPECT_EQ(second[1], all_logits(alone, prompts[3]).back());
    EXPECT_EQ(second[2], all_logits(alone, prompts[1]).back());
    EXPECT_EQ(second[3], all_logits(alone, prompts[2]).back());
    prompts[0].push_back(5);
    prompts[3].push_back(6);
    const auto third = batch.step({{3, {6}}, {4, prompts[4]}, {0, {5}}});
    EXPECT_EQ(third[0], all_logits(alone, prompts[3]).back());
    EXPECT_EQ(third[1], all_logits(alone, prompts[4]).back());
    EXPECT_EQ(third[2], all_logits(alone, prompts[0]).back());
  }
}

// The callback's promise: K and V of the layer are in the pool, finished, before anything later happens.
TEST(Llama, LayerCallbackComesWhenTheLayersKvIsComplete) {
  LoadedModel loaded(golden::path("llama_tied"), {});
  const KvLayout layout = kv_layout_of(loaded.model->config(), 64, KvDtype::kF32);
  const auto pool_bytes = static_cast<size_t>(layout.pool_bytes(1));
  DeviceBuffer memory = loaded.device->allocate(layout.pool_bytes(1)).value();
  const std::vector<TokenId> tokens = {5, 6, 7};
  const std::vector<int32_t> positions = {0, 1, 2};
  const std::vector<uint32_t> table = {0};
  const SequenceSlice slice{0, 3, 0, table};
  std::vector<std::vector<std::byte>> at_callback;
  std::vector<int> layers;
  const auto on_layer = [&](int layer) {
    layers.push_back(layer);
    at_callback.emplace_back(memory.as<std::byte>(), memory.as<std::byte>() + pool_bytes);
  };
  std::vector<float> logits(512);
  // Without logit rows too: a chunk that only fills the cache still completes every layer.
  for (const bool with_logits : {true, false}) {
    std::memset(memory.data(), 0, pool_bytes);
    layers.clear();
    at_callback.clear();
    const std::vector<int32_t> logit_rows = with_logits ? std::vector<int32_t>{2} : std::vector<int32_t>{};
    loaded.model->forward(*loaded.stream, {tokens, positions, std::span(&slice, 1), logit_rows},
                          {memory.data(), layout, 1},
                          {logits.data(), static_cast<int64_t>(logit_rows.size()), 512}, on_layer);
    EXPECT_EQ(layers, (std::vector<int>{0, 1, 2, 3}));
    const auto layer_bytes = static_cast<int64_t>(2 * layout.block_bytes());
    for (int layer = 0; layer < 4; ++layer) {
      const auto& then = at_callback[static_cast<size_t>(layer)];
      EXPECT_EQ(std::memcmp(then.data() + layer * layer_bytes, memory.as<std::byte>() + layer * layer_bytes,
                            static_cast<size_t>(layer_bytes)),
                0);
      const auto nonzero = [](const std::byte* from, int64_t bytes) {
        return std::any_of(from, from + bytes, [](std::byte b) { return b != std::byte{0}; });
      };
      EXPECT_TRUE(nonzero(then.data() + layer * layer_bytes, layer_bytes / 2)) << "K of layer " << layer;
      EXPECT_TRUE(nonzero(then.data() + layer * layer_bytes + layer_bytes / 2, layer_bytes / 2));
      EXPECT_FALSE(nonzero(then.data() + (layer + 1) * layer_bytes, (3 - layer) * layer_bytes));
    }
  }
}

TEST(Llama, ObserverSeesEveryStage) {
  LoadedModel loaded(golden::path("llama_tied"), {});
  SequenceRunner runner = loaded.runner(KvDtype::kF32);
  std::vector<int> stages;
  std::vector<int64_t> rows;
  const auto observe = [&](int stage, Matrix<const float> hidden) {
    stages.push_back(stage);
    rows.push_back(hidden.rows);
  };
  ASSERT_TRUE(
      runner
          .feed(
              std::vector<TokenId>{1, 2, 3}, SequenceRunner::Logits::kLast, [](auto, auto) {}, observe)
          .ok());
  EXPECT_EQ(stages, (std::vector<int>{-1, 0, 1, 2, 3, 4}));
  EXPECT_EQ(rows, (std::vector<int64_t>{3, 3, 3, 3, 1, 1}));
}

// The same weights as f16 give what f32 gives when they are representable.
TEST(Llama, LoadsEveryStoredType) {
  const TempDir dir;
  std::filesystem::copy(golden::path("llama_tied"), dir / "m");
  const auto file = SafetensorsFile::open(golden::path("llama_tied/model.safetensors")).value();
  const auto write = [&](DType dtype) {
    std::vector<TensorSpec> specs;
    for (const TensorView& tensor : file.tensors()) specs.push_back({tensor.name, dtype, tensor.shape});
    std::filesystem::remove(dir / "m/model.safetensors");
    auto writer = SafetensorsWriter::create(dir / "m/model.safetensors", specs).value();
    for (const TensorView& tensor : file.tensors()) {
      for (int64_t i = 0; i < tensor.elements(); ++i) {
        // Rounded to bf16, then to f16: what both types hold, but for a few subnormals that f16 flushes.
        float value = 0;
        std::memcpy(&value, tensor.data.data() + i * 4, 4);
        value = to_float(to_f16(to_float(to_bf16(value))));
        const F16 f16 = to_f16(value);
        const Bf16 bf16 = to_bf16(value);
        const void* from = dtype == DType::kF32   ? static_cast<const void*>(&value)
                           : dtype == DType::kF16 ? static_cast<const void*>(&f16)
                                                  : static_cast<const void*>(&bf16);
        ASSERT_TRUE(
            writer.append({static_cast<const std::byte*>(from), static_cast<size_t>(dtype_bytes(dtype))})
                .ok());
      }
    }
    ASSERT_TRUE(writer.finish().ok());
  };
  const std::vector<TokenId> tokens = {9, 8, 7, 6};
  for (const DType in_memory : {DType::kF32, DType::kBf16}) {
    std::vector<std::vector<float>> expected;
    for (const DType stored : {DType::kF32, DType::kF16, DType::kBf16}) {
      write(stored);
      LoadedModel loaded(dir / "m", {.dtype = in_memory});
      SequenceRunner runner = loaded.runner(KvDtype::kF32);
      const auto rows = all_logits(runner, tokens);
      if (expected.empty()) expected = rows;
      EXPECT_EQ(rows, expected) << dtype_name(stored) << " as " << dtype_name(in_memory);
    }
  }
}

TEST(Llama, ErrorsOfLoading) {
  const auto device = make_cpu_device();
  const auto expect = [&](const std::string& dir, const ModelOptions& options, Error code, const char* part) {
    const auto result = load_model(dir, options, *device);
    ASSERT_FALSE(result.ok()) << part;
    EXPECT_EQ(result.code(), code) << result.message();
    EXPECT_NE(result.message().find(part), std::string::npos) << result.message();
  };
  expect(golden::path("llama_tied"), {.dtype = DType::kF16}, Error::kInvalidArgument, "f32 or bf16");
  expect(golden::path("llama_tied"), {.positions_max = 257}, Error::kInvalidArgument, "257");
  const TempDir dir;
  std::filesystem::copy(golden::path("llama_tied"), dir / "m");
  auto config = golden::Json::parse(golden::read(dir / "m/config.json"));
  config["num_hidden_layers"] = 5;
  dir.write("m/config.json", config.dump());
  expect(dir / "m", {}, Error::kCorrupt, "tensor \"model.layers.4.input_layernorm.weight\" is missing");
  config["num_hidden_layers"] = 4;
  config["intermediate_size"] = 1 << 20;  // absurd, and found before memory is taken
  dir.write("m/config.json", config.dump());
  expect(dir / "m", {}, Error::kCorrupt, "config.json needs [1048576, 64]");
  std::filesystem::remove(dir / "m/model.safetensors");
  expect(dir / "m", {}, Error::kNotFound, "model.safetensors");
}

}  // namespace
}  // namespace penstock
