// The tokenizer and chat template of the demo model, by the vocabulary that `penstock import` wrote.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/text/vectors.h"

namespace penstock {
namespace {

std::string model_dir() {
  const char* dir = std::getenv("PENSTOCK_TEST_MODEL");
  CHECK(dir != nullptr);  // ./penstock.sh test sets it: the imported SmolLM2-135M-Instruct
  return dir;
}

TEST(SmolLm2, EveryVectorAndStreamEqualsTheReference) {
  Tokenizer tokenizer = Tokenizer::from_file(model_dir() + "/tokenizer.json").value();
  EXPECT_EQ(tokenizer.vocab_size(), 49152);
  EXPECT_EQ(expect_ids(tokenizer, "smollm2_vectors.jsonl"), 400u);
  expect_streams(tokenizer, "smollm2_stream.jsonl", 200);
}

}  // namespace
}  // namespace penstock
