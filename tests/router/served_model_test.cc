#include "router/served_model.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/router/tiny_model.h"

namespace penstock::router {
namespace {

TEST(ServedModelTest, LimitsAndEndTokensComeFromTheModelsFiles) {
  const TinyModel folder;
  const auto model = ServedModel::load(folder.dir(), "tiny", 0);
  ASSERT_TRUE(model.ok()) << model.message();
  EXPECT_EQ(model->context_max(), 512);
  EXPECT_EQ(model->vocab_size(), TinyModel::kVocab);
  EXPECT_EQ(model->eos_ids(), (std::vector<TokenId>{TinyModel::kEndOfText, TinyModel::kTurnEnd}))
      << "case 24";
  EXPECT_EQ(ServedModel::load(folder.dir(), "tiny", 100)->context_max(), 100);
  EXPECT_EQ(ServedModel::load(folder.dir(), "tiny", 9999)->context_max(), 512);
}

TEST(ServedModelTest, Case20ExactlyOneBos) {
  const TinyModel folder;
  auto model = ServedModel::load(folder.dir(), "tiny", 0).value();
  const auto chat = std::get<std::vector<TokenId>>(model.chat_ids({{"user", "hi", std::nullopt}}));
  EXPECT_EQ(std::count(chat.begin(), chat.end(), TinyModel::kBegin), 1);
  EXPECT_EQ(chat.front(), TinyModel::kBegin);
  const auto text = std::get<std::vector<TokenId>>(model.prompt_ids("hi"));
  EXPECT_EQ(std::count(text.begin(), text.end(), TinyModel::kBegin), 1);
}

TEST(ServedModelTest, Case33EmptyPromptWithoutBosIsRefused) {
  const TinyModel folder;
  std::filesystem::copy_file(TinyModel::golden("gpt2_tokenizer.json"), folder.dir() + "/tokenizer.json",
                             std::filesystem::copy_options::overwrite_existing);
  auto model = ServedModel::load(folder.dir(), "tiny", 0).value();
  const PromptIds ids = model.prompt_ids("");
  ASSERT_TRUE(std::holds_alternative<ApiError>(ids));
  EXPECT_EQ(std::get<ApiError>(ids).param, "prompt");
}

TEST(ServedModelTest, ModelWithoutTemplateStillCompletes) {
  const TinyModel folder;
  std::filesystem::remove(folder.dir() + "/chat_template.jinja");
  auto model = ServedModel::load(folder.dir(), "tiny", 0).value();
  EXPECT_TRUE(std::holds_alternative<ApiError>(model.chat_ids({{"user", "hi", std::nullopt}})));
  EXPECT_FALSE(std::holds_alternative<ApiError>(model.prompt_ids("hi")));
}

TEST(ServedModelTest, BrokenFilesAreNamed) {
  const TinyModel folder;
  const auto message = [&] {
    const auto model = ServedModel::load(folder.dir(), "tiny", 0);
    EXPECT_FALSE(model.ok());
    return model.ok() ? "" : model.message();
  };
  folder.write("chat_template.jinja", "{% if %}");
  EXPECT_NE(message().find("chat_template"), std::string::npos);
  folder.write("chat_template.jinja", "x");
  folder.write("config.json", "{}");
  EXPECT_NE(message().find("max_position_embeddings"), std::string::npos);
  folder.write("config.json", R"({"max_position_embeddings":512,"vocab_size":5})");
  EXPECT_NE(message().find("vocab_size"), std::string::npos);
  folder.write("config.json", "no json");
  EXPECT_NE(message().find("config.json"), std::string::npos);
  std::filesystem::remove(folder.dir() + "/tokenizer.json");
  EXPECT_NE(message().find("tokenizer.json"), std::string::npos);
}

}  // namespace
}  // namespace penstock::router
