// The tokenizer and chat template of the demo model, by the vocabulary that `penstock import` wrote.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/text/vectors.h"
#include "text/model_text.h"

namespace penstock {
namespace {

std::string model_dir() {
  const char* dir = std::getenv("PENSTOCK_TEST_MODEL");
  CHECK(dir != nullptr);  // ./penstock.sh test sets it: the imported SmolLM2-135M-Instruct
  return dir;
}

Tokenizer load() { return load_tokenizer(model_dir()).value(); }

// The tokenizer.json comes from the GGUF's metadata; the vectors from the reference.
TEST(SmolLm2, EveryVectorInBothModes) {
  Tokenizer tokenizer = load();
  EXPECT_EQ(tokenizer.vocab_size(), 49152);
  EXPECT_EQ(expect_ids(tokenizer, "smollm2_vectors.jsonl"), 400u);
}

TEST(SmolLm2, EveryStreamPieceByPiece) {
  const Tokenizer tokenizer = load();
  expect_streams(tokenizer, "smollm2_stream.jsonl", 200);
  expect_streams_of_random_ids(tokenizer, 20261206, 5000);
}

TEST(SmolLm2, TwelveConversationsAndTheirSpecialTokens) {
  const ModelChat chat = load_chat_template(model_dir()).value();
  Tokenizer tokenizer = load();
  const TokenId start = tokenizer.find_token("<|im_start|>").value(),
                end = tokenizer.find_token("<|im_end|>").value();
  const auto rows = golden::lines("smollm2_chat.jsonl");
  EXPECT_EQ(rows.size(), 12u);
  for (const golden::Json& row : rows) {
    const golden::Json& given = row.at("variables");
    SCOPED_TRACE(given.dump());
    const auto variables = jinja::value_from_json(given.dump()).value();
    const auto prompt = render_chat(chat, variables.as_dict());
    ASSERT_TRUE(prompt.ok()) << prompt.message();
    EXPECT_EQ(prompt->text, row.at("expected").get<std::string>());
    // One pair a message, whatever the messages spell; a system message of the template's own; the open
    // answer.
    const auto own = static_cast<ptrdiff_t>(given.at("messages").size()) +
                     (given.at("messages")[0].at("role") == "system" ? 0 : 1);
    const auto ids = tokenizer.encode(*prompt).value();
    EXPECT_EQ(std::count(ids.begin(), ids.end(), end), own);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), start), own + (given.at("add_generation_prompt") ? 1 : 0));
    EXPECT_EQ(tokenizer.decode(ids), prompt->text);
  }
}

}  // namespace
}  // namespace penstock
