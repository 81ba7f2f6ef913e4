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
