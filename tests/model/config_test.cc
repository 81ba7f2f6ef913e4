#include "model/config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/model/golden.h"
#include "tests/model/temp_dir.h"

namespace penstock {
namespace {

using Json = nlohmann::json;

Json classic() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"hidden_size", 2048},
          {"intermediate_size", 8192},
          {"num_hidden_layers", 16},
          {"num_attention_heads", 32},
          {"num_key_value_heads", 8},
          {"vocab_size", 128256},
          {"max_position_embeddings", 131072},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 500000.0},
          {"rope_scaling",
           {{"factor", 32.0},
            {"high_freq_factor", 4.0},
            {"low_freq_factor", 1.0},
            {"original_max_position_embeddings", 8192},
            {"rope_type", "llama3"}}},
          {"tie_word_embeddings", true},
          {"bos_token_id", 128000},
          {"eos_token_id", {128001, 128008}},
          {"torch_dtype", "bfloat16"}};
}

Result<ModelConfig> parse(const Json& config, const std::string& generation = "") {
  return parse_model_config(config.dump(), generation, "m");
}

void expect_failure(const Json& config, Error code, const std::string& part) {
  const auto result = parse(config);
  ASSERT_FALSE(result.ok()) << part;
  EXPECT_EQ(result.code(), code) << result.message();
  EXPECT_NE(result.message().find(part), std::string::npos) << result.message();
  EXPECT_NE(result.message().find("m/config.json"), std::string::npos) << result.message();
}

TEST(ModelConfig, ReadsTheClassicStyle) {
  const ModelConfig config = parse(classic(), R"({"eos_token_id": [128001, 128009]})").value();
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.qkv_size(), 32 * 64 + 2 * 8 * 64);
  EXPECT_EQ(config.rope_theta, 500000.0);
  ASSERT_TRUE(config.rope_llama3.has_value());
  EXPECT_EQ(config.rope_llama3->factor, 32);
  EXPECT_EQ(config.rope_llama3->original_context, 8192);
  EXPECT_EQ(config.eos_ids, (std::vector<TokenId>{128001, 128009, 128008}));
  EXPECT_EQ(config.bos_id, 128000);
  EXPECT_EQ(config.stored_dtype, DType::kBf16);
  EXPECT_TRUE(config.tied_embeddings);
}

TEST(ModelConfig, ReadsTheNewStyle) {
  Json json = classic();
  json["rope_parameters"] = json["rope_scaling"];
  json["rope_parameters"]["rope_theta"] = 250000.0;
  json["dtype"] = "float16";
  for (const char* key : {"rope_scaling", "rope_theta", "torch_dtype"}) json.erase(key);
  const ModelConfig config = parse(json).value();
  EXPECT_EQ(config.rope_theta, 250000.0);
  EXPECT_EQ(config.rope_llama3->factor, 32);
  EXPECT_EQ(config.stored_dtype, DType::kF16);
}

TEST(ModelConfig, FillsInDefaults) {
  Json json = classic();
  for (const char* key : {"num_key_value_heads", "rope_scaling", "rope_theta", "torch_dtype", "eos_token_id",
                          "bos_token_id", "tie_word_embeddings", "rms_norm_eps"}) {
    json.erase(key);
  }
  json["rope_scaling"] = nullptr;
  const ModelConfig config = parse(json).value();
  EXPECT_EQ(config.kv_heads, 32);
  EXPECT_EQ(config.rope_theta, 10000.0);
  EXPECT_FALSE(config.rope_llama3.has_value());
  EXPECT_TRUE(config.eos_ids.empty());
  EXPECT_FALSE(config.bos_id.has_value());
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
}

TEST(ModelConfig, NamesWhatItDoesNotSupport) {
  const auto with = [](const char* key, Json value) {
    Json json = classic();
    json[key] = std::move(value);
    return json;
  };
  expect_failure(with("architectures", {"MistralForCausalLM"}), Error::kUnsupported,
                 "MistralForCausalLM is not supported; this build runs LlamaForCausalLM");
  expect_failure(with("attention_bias", true), Error::kUnsupported, "attention_bias");
  expect_failure(with("hidden_act", "gelu"), Error::kUnsupported, "gelu");
  expect_failure(with("rope_scaling", {{"type", "linear"}, {"factor", 2.0}}), Error::kUnsupported, "linear");
  expect_failure(with("head_dim", 72), Error::kUnsupported, "72");
  expect_failure(with("quantization_config", Json::object()), Error::kUnsupported, "quantized");
  expect_failure(with("torch_dtype", "int8"), Error::kUnsupported, "int8");
}

TEST(ModelConfig, RefusesBadFields) {
  const auto with = [](const char* key, Json value) {
    Json json = classic();
    json[key] = std::move(value);
    return json;
  };
  expect_failure(with("hidden_size", "big"), Error::kCorrupt, "\"hidden_size\" must be an integer");
  expect_failure(with("hidden_size", -1), Error::kCorrupt, "hidden_size");
  expect_failure(with("vocab_size", 18446744073709551615ULL), Error::kCorrupt, "vocab_size");
  expect_failure(with("num_hidden_layers", 1e9), Error::kCorrupt, "num_hidden_layers");
  expect_failure(with("num_key_value_heads", 5), Error::kCorrupt, "not a multiple");
  expect_failure(with("eos_token_id", 999999999), Error::kCorrupt, "eos_token_id");
  expect_failure(with("eos_token_id", {1, "x"}), Error::kCorrupt, "eos_token_id");
  expect_failure(with("rope_theta", 0), Error::kCorrupt, "rope_theta");
  Json json = classic();
  json.erase("hidden_size");
  expect_failure(json, Error::kCorrupt, "\"hidden_size\" is missing");
  json = classic();
  json["rope_scaling"].erase("factor");
  expect_failure(json, Error::kCorrupt, "rope_scaling: the field \"factor\" is missing");
  const auto broken = parse_model_config("{\"a\": ", "", "m");
  EXPECT_NE(broken.message().find("not valid JSON at byte 7"), std::string::npos) << broken.message();
  EXPECT_FALSE(parse_model_config("[]", "", "m").ok());
}

TEST(ModelConfig, LoadsFoldersAndSaysWhenThereIsNone) {
  const ModelConfig config = load_model_config(golden::path("llama_rope3")).value();
  EXPECT_EQ(config.hidden_size, 64);
  EXPECT_EQ(config.q_size(), 128);
  EXPECT_EQ(config.rope_llama3->original_context, 64);
  const TempDir dir;
  const auto missing = load_model_config(dir.path());
  EXPECT_EQ(missing.code(), Error::kNotFound);
  EXPECT_NE(missing.message().find("penstock import"), std::string::npos);
}

}  // namespace
}  // namespace penstock
