// A tokenizer that came by way of a GGUF file's metadata gives the ids of the tokenizer.json it was made
// from.
#include "model/gguf.h"
#include "model/import_tokenizer.h"
#include "tests/model/gguf_builder.h"
#include "tests/text/vectors.h"

namespace penstock {
namespace {

using golden::Json;

// What the publisher's converter writes of a tokenizer.json.
std::string gguf_of(const Json& json, const std::string& pre) {
  constexpr int32_t kNormal = 1, kControl = 3, kUserDefined = 4;
  const Json& vocab = json["model"]["vocab"];
  std::vector<std::string> tokens(vocab.size());
  std::vector<int32_t> types(vocab.size(), kNormal);
  for (const auto& [content, id] : vocab.items()) tokens.at(id.get<size_t>()) = content;
  for (const Json& added : json["added_tokens"]) {
    const auto id = added["id"].get<size_t>();
    tokens.resize(std::max(tokens.size(), id + 1));
    types.resize(tokens.size(), kNormal);
    tokens[id] = added["content"];
    types[id] = added["special"].get<bool>() ? kControl : kUserDefined;
  }
  std::vector<std::string> merges;
  for (const Json& merge : json["model"]["merges"]) {
    merges.push_back(merge.is_string() ? merge.get<std::string>()
                                       : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  GgufBuilder builder;
  builder.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", pre);
  builder.strings("tokenizer.ggml.tokens", tokens).i32s("tokenizer.ggml.token_type", types);
  builder.strings("tokenizer.ggml.merges", merges);
  if (pre == "llama-bpe") {
    const auto& contents = tokens;
    const auto bos = std::find(contents.begin(), contents.end(), "<|begin_of_text|>") - contents.begin();
    builder.u32("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(bos));
    builder.boolean("tokenizer.ggml.add_bos_token", true);
  }
  return builder.build();
}

class TokenizerGguf : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(TokenizerGguf, GivesTheIdsOfItsTokenizerJson) {
  const auto& [style, pre] = GetParam();
  const std::string name(style);
  const std::string gguf = gguf_of(Json::parse(golden::read(golden::path(name + "_tokenizer.json"))), pre);
  const auto file = GgufFile::parse(std::as_bytes(std::span(gguf)), "m.gguf");
  ASSERT_TRUE(file.ok()) << file.message();
  const auto json = tokenizer_json_from_gguf(*file);
  ASSERT_TRUE(json.ok()) << json.message();
  auto tokenizer = Tokenizer::from_json(*json, "m.gguf");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
  EXPECT_EQ(expect_ids(*tokenizer, name + "_vectors.jsonl"), 150u);
  expect_streams(*tokenizer, name + "_stream.jsonl", 60);
  const Tokenizer original = load_style(name);
  EXPECT_EQ(tokenizer->vocab_size(), original.vocab_size());
  EXPECT_EQ(tokenizer->special_tokens(), original.special_tokens());
  for (TokenId id = 0; id < original.vocab_size(); ++id) {
    ASSERT_EQ(tokenizer->token_bytes(id), original.token_bytes(id)) << id;
  }
}

INSTANTIATE_TEST_SUITE_P(Styles, TokenizerGguf,
                         testing::Values(std::pair("gpt2", "gpt-2"), std::pair("llama3", "llama-bpe")),
                         [](const auto& test) { return std::string(test.param.first); });

}  // namespace
}  // namespace penstock
