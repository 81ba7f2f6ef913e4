#include "model/import.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "model/checkpoint.h"
#include "model/config.h"
#include "model/weight_names.h"
#include "tests/model/gguf_builder.h"
#include "tests/model/golden.h"
#include "tests/model/temp_dir.h"

namespace penstock {
namespace {

std::vector<float> values_of(const TensorView& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  CHECK_EQ(values.size() * 4, tensor.data.size());
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

std::string gguf_name(std::string name) {
  const std::map<std::string, std::string> parts = {{"model.embed_tokens", "token_embd"},
                                                    {"model.norm", "output_norm"},
                                                    {"lm_head", "output"},
                                                    {"input_layernorm", "attn_norm"},
                                                    {"self_attn.q_proj", "attn_q"},
                                                    {"self_attn.k_proj", "attn_k"},
                                                    {"self_attn.v_proj", "attn_v"},
                                                    {"self_attn.o_proj", "attn_output"},
                                                    {"mlp.gate_proj", "ffn_gate"},
                                                    {"mlp.up_proj", "ffn_up"},
                                                    {"mlp.down_proj", "ffn_down"},
                                                    {"post_attention_layernorm", "ffn_norm"}};
  name.resize(name.size() - std::strlen(".weight"));
  std::string prefix;
  if (name.starts_with("model.layers.")) {
    const size_t dot = name.find('.', 13);
    prefix = "blk." + name.substr(13, dot - 13) + ".";
    name = name.substr(dot + 1);
  }
  return prefix + parts.at(name) + ".weight";
}

// Rows as GGUF's converters store them: [head][half][i] becomes [head][i][half].
std::vector<float> permute(const std::vector<float>& rows, int64_t heads, int64_t cols) {
  const auto head_dim = static_cast<int64_t>(rows.size()) / cols / heads;
  std::vector<float> out(rows.size());
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t half = 0; half < 2; ++half) {
      for (int64_t i = 0; i < head_dim / 2; ++i) {
        const int64_t from = head * head_dim + half * head_dim / 2 + i, to = head * head_dim + 2 * i + half;
        std::copy_n(rows.begin() + from * cols, cols, out.begin() + to * cols);
      }
    }
  }
  return out;
}

struct GgufOptions {
  std::string pre = "smollm";
  bool add_bos = false;
  std::string skip_tensor = {}, extra_tensor = {};
  std::vector<float> rope_factors = {};
};

// A GGUF with the weights of a golden folder and a vocabulary of 512 tokens.
GgufBuilder gguf_of(const std::string& folder, const GgufOptions& options = {}) {
  const ModelConfig config = load_model_config(golden::path(folder)).value();
  const Checkpoint checkpoint = Checkpoint::open(golden::path(folder)).value();
  GgufBuilder builder;
  builder.string("general.architecture", "llama")
      .u32("llama.block_count", 4)
      .u32("llama.context_length", 256);
  builder.u32("llama.embedding_length", 64).u32("llama.feed_forward_length", 128);
  builder.u32("llama.attention.head_count", 8).u32("llama.attention.head_count_kv", 2);
  builder.u32("llama.attention.key_length", 16)
      .f32("llama.rope.freq_base", static_cast<float>(config.rope_theta));
  builder.f32("llama.attention.layer_norm_rms_epsilon", static_cast<float>(config.rms_norm_eps));
  std::vector<std::string> tokens;
  std::vector<int32_t> types(512, 1);
  for (int i = 0; i < 512; ++i) tokens.push_back(std::string("t").append(std::to_string(i)));
  tokens[0] = "<pad>";
  tokens[1] = "<s>";
  tokens[2] = "</s>";
  tokens[3] = "caf\xc3\xa9 \"x\"\n";
  tokens[4] = "<think>";
  for (int i = 0; i < 3; ++i) types[static_cast<size_t>(i)] = 3;
  types[4] = 4;
  builder.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", options.pre);
  builder.strings("tokenizer.ggml.tokens", tokens).i32s("tokenizer.ggml.token_type", types);
  builder.strings("tokenizer.ggml.merges", {"a b", "ab c"});
  builder.u32("tokenizer.ggml.bos_token_id", 1).u32("tokenizer.ggml.eos_token_id", 2);
  builder.u32("tokenizer.ggml.eot_token_id", 5).boolean("tokenizer.ggml.add_bos_token", options.add_bos);
  builder.string("tokenizer.chat_template", "{{ messages[0]['content'] }}");
  for (const WeightName& weight : canonical_weights(config)) {
    if (weight.name == options.skip_tensor) continue;
    std::vector<float> values = values_of(checkpoint.find(weight.name, weight.shape).value());
    if (weight.name.find("q_proj") != std::string::npos) values = permute(values, 8, 64);
    if (weight.name.find("k_proj") != std::string::npos) values = permute(values, 2, 64);
    builder.f32_tensor(gguf_name(weight.name), {weight.shape.begin(), weight.shape.end()}, values);
  }
  if (!options.extra_tensor.empty()) builder.f32_tensor(options.extra_tensor, {1}, std::vector<float>{1});
  if (!options.rope_factors.empty()) {
    builder.f32_tensor("rope_freqs.weight", {options.rope_factors.size()}, options.rope_factors);
  }
  return builder;
}

void expect_same_tensors(const std::string& dir, const std::string& folder) {
  const ModelConfig config = load_model_config(dir).value();
  const Checkpoint imported = Checkpoint::open(dir).value(),
                   original = Checkpoint::open(golden::path(folder)).value();
  for (const WeightName& weight : canonical_weights(config)) {
    EXPECT_EQ(values_of(imported.find(weight.name, weight.shape).value()),
              values_of(original.find(weight.name, weight.shape).value()))
        << weight.name;
  }
}

TEST(Import, GgufGivesBackTheTensorsOfTheFolderItWasMadeOf) {
  const TempDir dir;
  for (const char* folder : {"llama_tied", "llama_rope3"}) {
    dir.write("m.gguf", gguf_of(folder).build());
    const std::string out = dir / (std::string("out-") + folder);
    int64_t last = 0;
    const auto progress = [&](int64_t done, int64_t total) {
      EXPECT_GT(done, last);
      EXPECT_LE(done, total);
      last = done;
    };
    const auto summary = import_model(dir / "m.gguf", out, {.dtype = DType::kF32}, progress).value();
    EXPECT_EQ(summary.bytes, last);
    EXPECT_EQ(summary.architecture, "LlamaForCausalLM");
    expect_same_tensors(out, folder);
    const ModelConfig config = load_model_config(out).value();
    EXPECT_EQ(config.tied_embeddings, folder == std::string("llama_tied"));
    EXPECT_EQ(config.rope_theta, 10000);
    EXPECT_EQ(config.rms_norm_eps, 1e-5);  // not 9.99999974e-06
    EXPECT_EQ(config.eos_ids, (std::vector<TokenId>{2, 5}));
    EXPECT_EQ(config.head_dim, 16);
  }
}

TEST(Import, TokenizerFilesFollowFromTheMetadata) {
  const TempDir dir;
  dir.write("m.gguf", gguf_of("llama_tied", {.pre = "llama-bpe", .add_bos = true}).build());
  ASSERT_TRUE(import_model(dir / "m.gguf", dir / "out", {}).ok());
  const auto tokenizer = golden::Json::parse(golden::read(dir / "out/tokenizer.json"));
  EXPECT_EQ(tokenizer["model"]["vocab"].size(), size_t{512});
  EXPECT_EQ(tokenizer["model"]["vocab"]["caf\u00e9 \"x\"\n"], 3);
  EXPECT_EQ(tokenizer["model"]["merges"], (golden::Json{"a b", "ab c"}));
  EXPECT_EQ(tokenizer["model"]["ignore_merges"], true);
  ASSERT_EQ(tokenizer["added_tokens"].size(), size_t{4});
  EXPECT_EQ(tokenizer["added_tokens"][1]["content"], "<s>");
  EXPECT_EQ(tokenizer["added_tokens"][1]["special"], true);
  EXPECT_EQ(tokenizer["added_tokens"][3]["content"], "<think>");
  EXPECT_EQ(tokenizer["added_tokens"][3]["special"], false);
  EXPECT_EQ(tokenizer["pre_tokenizer"]["pretokenizers"][0]["type"], "Split");
  EXPECT_EQ(tokenizer["post_processor"]["single"][0]["SpecialToken"]["id"], "<s>");
  EXPECT_EQ(tokenizer["post_processor"]["special_tokens"]["<s>"]["ids"], golden::Json::array({1}));
  const auto config = golden::Json::parse(golden::read(dir / "out/tokenizer_config.json"));
  EXPECT_EQ(config["chat_template"], "{{ messages[0]['content'] }}");
  EXPECT_EQ(config["eos_token"], "</s>");
  EXPECT_FALSE(config.contains("pad_token"));
}

TEST(Import, RotaryScalingOfLlama3IsRecognised) {
  const TempDir dir;
  // Factors as converters compute them, head_dim 16, theta 10000, factor 8, original context 8192.
  std::vector<float> factors;
  for (int i = 0; i < 8; ++i) {
    const double wavelength = 2 * 3.14159265358979 * std::pow(10000.0, i / 8.0);
    const double smooth = (8192 / wavelength - 1) / 3;
    factors.push_back(static_cast<float>(smooth > 1 ? 1 : smooth < 0 ? 8 : 1 / ((1 - smooth) / 8 + smooth)));
  }
  dir.write("m.gguf", gguf_of("llama_tied", {.rope_factors = factors}).build());
  ASSERT_TRUE(import_model(dir / "m.gguf", dir / "out", {}).ok());
  const ModelConfig config = load_model_config(dir / "out").value();
  ASSERT_TRUE(config.rope_llama3.has_value());
  EXPECT_EQ(config.rope_llama3->factor, 8);
  EXPECT_EQ(config.rope_llama3->original_context, 8192);
  factors[2] = 1.5F;
  dir.write("m.gguf", gguf_of("llama_tied", {.rope_factors = factors}).build());
  const auto refused = import_model(dir / "m.gguf", dir / "out2", {});
  EXPECT_NE(refused.message().find("rope_freqs.weight"), std::string::npos) << refused.message();
}

TEST(Import, HfFolderIsRewrittenInTheAskedType) {
  const TempDir dir;
  std::filesystem::copy(golden::path("llama_tied"), dir / "m");
  dir.write("m/tokenizer.json", "{}");
  dir.write("m/chat_template.jinja", "x");
  ASSERT_TRUE(import_model(dir / "m", dir / "f32/", {.dtype = DType::kF32}).ok());
  expect_same_tensors(dir / "f32", "llama_tied");
  EXPECT_EQ(golden::read(dir / "f32/chat_template.jinja"), "x");
  ASSERT_TRUE(import_model(dir / "m", dir / "bf16", {}).ok());
  EXPECT_EQ(load_model_config(dir / "bf16").value().stored_dtype, DType::kBf16);
  const Checkpoint wide = Checkpoint::open(dir / "f32").value(),
                   narrow = Checkpoint::open(dir / "bf16").value();
  const auto values = values_of(wide.find("model.norm.weight", {64}).value());
  const TensorView rounded = narrow.find("model.norm.weight", {64}).value();
  EXPECT_EQ(rounded.dtype_name, "BF16");
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<const Bf16*>(rounded.data.data())[i].bits, to_bf16(values[i]).bits);
  }
}

TEST(Import, FailuresNameTheCauseAndLeaveNothing) {
  const TempDir dir;
  const auto expect = [&](const std::string& source, const std::string& destination, const char* part) {
    const auto result = import_model(source, destination, {});
    ASSERT_FALSE(result.ok()) << part;
    EXPECT_NE(result.message().find(part), std::string::npos) << result.message();
  };
  const auto gguf = [&](const GgufBuilder& builder) {
    dir.write("m.gguf", builder.build());
    return dir / "m.gguf";
  };
  expect(dir / "none", dir / "out", "no such file or folder");
  expect(gguf(gguf_of("llama_tied", {.skip_tensor = "model.layers.2.mlp.up_proj.weight"})), dir / "out",
         "no tensor for \"model.layers.2.mlp.up_proj.weight\"");
  expect(gguf(gguf_of("llama_tied", {.extra_tensor = "blk.0.attn_q.bias"})), dir / "out",
         "tensor \"blk.0.attn_q.bias\" at offset");
  expect(gguf(gguf_of("llama_tied", {.extra_tensor = "blk.7.ffn_up.weight"})), dir / "out", "blk.7.ffn_up");
  expect(gguf(gguf_of("llama_tied", {.pre = "qwen2"})), dir / "out", "tokenizer.ggml.pre \"qwen2\"");
  expect(gguf(GgufBuilder().string("general.architecture", "gemma2")), dir / "out",
         "gemma2 is not supported");
  expect(gguf(GgufBuilder()), dir / "out", "general.architecture is missing");
  std::string truncated = gguf_of("llama_tied").build();
  truncated.resize(truncated.size() - 5000);
  dir.write("t.gguf", truncated);
  expect(dir / "t.gguf", dir / "out", "it is truncated or damaged");
  std::filesystem::copy(golden::path("llama_tied"), dir / "m");
  expect(dir / "m", dir / "out", "tokenizer.json is missing");
  gguf(gguf_of("llama_tied"));
  std::filesystem::create_directory(dir / "full");
  dir.write("full/x", "");
  expect(dir / "m.gguf", dir / "full", "exists already");
  expect(dir / "m.gguf", dir / "full/x/y", "cannot create");
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
    left.push_back(entry.path().filename());
  std::sort(left.begin(), left.end());
  EXPECT_EQ(left, (std::vector<std::string>{"full", "m", "m.gguf", "t.gguf"}));
  std::filesystem::create_directory(dir / "empty");
  EXPECT_TRUE(import_model(dir / "m.gguf", dir / "empty", {}).ok());
}

}  // namespace
}  // namespace penstock
