#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/rng.h"
#include "tests/text/vectors.h"

namespace penstock {
namespace {

using golden::Json;

Tokenizer load(const std::string& style) {
  return Tokenizer::from_file(golden::path(style + "_tokenizer.json")).value();
}

TEST(Tokenizer, Gpt2StyleEqualsTheReference) {
  Tokenizer tokenizer = load("gpt2");
  expect_vectors(tokenizer, "gpt2_vectors.jsonl", "gpt2_stream.jsonl", 150, 60);
}

TEST(Tokenizer, Llama3StyleEqualsTheReference) {
  Tokenizer tokenizer = load("llama3");
  expect_vectors(tokenizer, "llama3_vectors.jsonl", "llama3_stream.jsonl", 150, 60);
}

// The NFC normalizer is refused; the rest of the style (added tokens that are not special) is held to those
// vectors that NFC leaves alone.
TEST(Tokenizer, Qwen2StyleWithoutItsNormalizer) {
  const auto refused = Tokenizer::from_file(golden::path("qwen2_tokenizer.json"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.code(), Error::kUnsupported);
  EXPECT_NE(refused.message().find("normalizer.type: 'NFC'"), std::string::npos) << refused.message();
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
