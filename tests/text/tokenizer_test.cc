#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include "tests/text/vectors.h"

namespace penstock {
namespace {

TEST(Tokenizer, Gpt2StyleEqualsTheReference) {
  Tokenizer tokenizer = load_style("gpt2");
  EXPECT_EQ(expect_ids(tokenizer, "gpt2_vectors.jsonl"), 150u);
}

TEST(Tokenizer, Llama3StyleEqualsTheReference) {
  Tokenizer tokenizer = load_style("llama3");
  EXPECT_EQ(expect_ids(tokenizer, "llama3_vectors.jsonl"), 150u);
}

// The NFC normalizer is refused; the rest of the style (added tokens that are not special) is held to those
// vectors that NFC leaves alone.
TEST(Tokenizer, Qwen2StyleWithoutItsNormalizer) {
  const auto refused = Tokenizer::from_file(golden::path("qwen2_tokenizer.json"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.code(), Error::kUnsupported);
  EXPECT_NE(refused.message().find("normalizer.type: 'NFC'"), std::string::npos) << refused.message();
  Tokenizer tokenizer = load_style("qwen2");
  EXPECT_GT(expect_ids(tokenizer, "qwen2_vectors.jsonl", true), 100u);
}

// What has been encoded before changes nothing: the cache of words is no memory of the text.
TEST(Tokenizer, AWarmTokenizerGivesTheIdsOfANewOne) {
  Tokenizer warm = load_style("llama3");
  Rng rng(20261205);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < 400; ++i) {
      text.push_back(" etaoinsh\n13\xC3\xA9"[rng.below(15)]);
    }
    Tokenizer fresh = warm.clone();
    ASSERT_EQ(warm.encode(text, ParseSpecial::kNo).value(), fresh.encode(text, ParseSpecial::kNo).value());
    ASSERT_EQ(warm.encode(text, ParseSpecial::kNo).value(), fresh.encode(text, ParseSpecial::kNo).value());
  }
}

TEST(Tokenizer, IllFormedTextIsReadAsItsRepair) {
  Tokenizer tokenizer = load_style("gpt2");
  EXPECT_EQ(tokenizer.encode("a\xFF\xE2\x82 b", ParseSpecial::kYes).value(),
            tokenizer.encode("a\uFFFD\uFFFD b", ParseSpecial::kYes).value());
  const RenderedText prompt{"<|endoftext|>\xFF", {{0, 13}}};
  const auto ids = tokenizer.encode(prompt).value();  // safe, if not what the template meant
  EXPECT_TRUE(std::none_of(ids.begin(), ids.end(), [&](TokenId id) { return tokenizer.is_special(id); }));
}

TEST(Tokenizer, OtherFamiliesAreRefusedByName) {
  for (const auto& [style, field] : {std::pair("llama2", "normalizer.type: 'Sequence'"),
                                     std::pair("mistral", "decoder.type: 'Sequence'")}) {
    const auto refused = Tokenizer::from_file(golden::path(std::string(style) + "_refused_tokenizer.json"));
    ASSERT_FALSE(refused.ok()) << style;
    EXPECT_EQ(refused.code(), Error::kUnsupported);
    EXPECT_NE(refused.message().find(field), std::string::npos) << refused.message();
    EXPECT_NE(refused.message().find("_refused_tokenizer.json"), std::string::npos) << refused.message();
  }
}

}  // namespace
}  // namespace penstock
