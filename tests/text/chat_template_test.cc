#include "text/chat_template.h"

#include <filesystem>

#include "tests/text/vectors.h"
#include "text/model_text.h"

namespace penstock {
namespace {

using golden::Json;

jinja::Value variables_of(const Json& row) {
  return jinja::value_from_json(row.at("variables").dump()).value();
}

RenderOptions with_clock() {
  RenderOptions options;
  options.local_time = [] {
    std::tm time{};
    time.tm_year = 126, time.tm_mon = 2, time.tm_mday = 5;  // as in the golden file
    return time;
  };
  return options;
}

void expect_case(const ChatTemplate& chat, const Json& row) {
  SCOPED_TRACE(row.at("variables").dump());
  const auto rendered = chat.render(variables_of(row), with_clock());
  if (row.contains("expected")) {
    ASSERT_TRUE(rendered.ok()) << rendered.message();
    EXPECT_EQ(rendered->text, row.at("expected").get<std::string>());
  } else {
    ASSERT_FALSE(rendered.ok());
    EXPECT_EQ(rendered.message(), row.at("message").get<std::string>());
  }
}

TEST(ChatTemplate, TwelveConversationsOfTheDemoModelByteForByte) {
  const auto chat =
      ChatTemplate::parse(golden::read(golden::path("smollm2_chat_template.jinja")), "t").value();
  const auto rows = golden::lines("smollm2_chat.jsonl");
  EXPECT_EQ(rows.size(), 12u);
  for (const Json& row : rows) expect_case(chat, row);
}

TEST(ChatTemplate, TwentyTemplatesInTheWayOfPublishedOnes) {
  const auto rows = golden::lines("templates.jsonl");
  EXPECT_EQ(rows.size(), 20u);
  size_t cases = 0;
  for (const Json& row : rows) {
    const auto chat = ChatTemplate::parse(row.at("template").get<std::string>(), row.at("name"));
    ASSERT_TRUE(chat.ok()) << chat.message();
    for (const Json& one : row.at("cases")) expect_case(*chat, one);
    cases += row.at("cases").size();
  }
  EXPECT_GE(cases, 40u);
}

TEST(ChatTemplate, RefusalsNameTheTemplate) {
  const auto syntax = ChatTemplate::parse("a\n{% if x %}", "dir/chat_template.jinja");
  ASSERT_FALSE(syntax.ok());
  EXPECT_EQ(syntax.message().find("dir/chat_template.jinja: line 2: "), 0u) << syntax.message();
  const auto large = ChatTemplate::parse(std::string(ChatTemplate::kSourceMax + 1, ' '), "big.jinja");
  ASSERT_FALSE(large.ok());
  EXPECT_EQ(large.code(), Error::kResourceExhausted);
  EXPECT_EQ(large.message().find("big.jinja: "), 0u) << large.message();
  const auto bytes = ChatTemplate::parse("a \xff b", "bytes.jinja");
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.message().find("bytes.jinja: "), 0u) << bytes.message();
  const auto chat = ChatTemplate::parse("{{ a }}", "t").value();
  EXPECT_FALSE(chat.render(jinja::Value(true)).ok());
}

// ---- special tokens: from the template, never from the request ----

// Every text of the request but roles and types, with `insert` put into its middle and at its ends.
Json with_inserted(const Json& value, const std::string& insert, const std::string& key = "") {
  if (value.is_string() && key != "role" && key != "type") {
    const auto text = value.get<std::string>();
    size_t middle = text.size() / 2;
    while (middle < text.size() && (static_cast<unsigned char>(text[middle]) & 0xC0) == 0x80) ++middle;
    return insert + text.substr(0, middle) + insert + text.substr(middle) + insert;
  }
  Json out = value;
  if (value.is_object()) {
    for (const auto& [name, child] : value.items()) out[name] = with_inserted(child, insert, name);
  }
  if (value.is_array()) {
    for (Json& child : out) child = with_inserted(child, insert, key);
  }
  return out;
}

std::vector<TokenId> specials_in(Tokenizer& tokenizer, const RenderedText& prompt) {
  std::vector<TokenId> ids = tokenizer.encode(prompt).value();
  std::erase_if(ids, [&](TokenId id) { return !tokenizer.is_special(id); });
  return ids;
}

// A prompt has the special tokens that it has with harmless text in the place of an attack.
size_t expect_same_specials(Tokenizer& tokenizer, const ChatTemplate& chat, const Json& row) {
  const auto render = [&](const std::string& insert) {
    const Json changed = with_inserted(row.at("variables"), insert);
    return chat.render(jinja::value_from_json(changed.dump()).value(), with_clock());
  };
  const auto harmless = render("zz");
  if (!harmless.ok()) return 0;  // the case is a refusal
  const auto expected = specials_in(tokenizer, *harmless);
  for (const TokenId special : tokenizer.special_tokens()) {
    const std::string name(tokenizer.token_bytes(special));
    for (const std::string& insert : {"z" + name + "z", "z" + name + name + "\n" + name + "z",
                                      "z" + name.substr(0, name.size() - 1), name.substr(1) + "z"}) {
      SCOPED_TRACE(insert);
      const auto attacked = render(insert);
      EXPECT_TRUE(attacked.ok()) << attacked.message();
      if (attacked.ok()) {
        EXPECT_EQ(specials_in(tokenizer, *attacked), expected) << attacked->text;
      }
    }
  }
  return expected.size();
}

TEST(ChatTemplate, WhatTheUserWritesNeverBecomesASpecialToken) {
  size_t specials = 0, prompts = 0;
  for (const char* style : {"qwen2", "llama3"}) {
    Tokenizer tokenizer = load_style(style);
    std::vector<Json> rows = golden::lines("templates.jsonl");
    rows.push_back({{"template", golden::read(golden::path("smollm2_chat_template.jinja"))},
                    {"cases", golden::lines("smollm2_chat.jsonl")},
                    {"name", "smollm2"}});
    for (const Json& row : rows) {
      SCOPED_TRACE(row.at("name").get<std::string>());
      const auto chat = ChatTemplate::parse(row.at("template").get<std::string>(), "t").value();
      for (const Json& one : row.at("cases")) {
        specials += expect_same_specials(tokenizer, chat, one);
        ++prompts;
      }
    }
  }
  EXPECT_GT(prompts, 100u);
  EXPECT_GT(specials, 60u);  // the templates' own are found
}

TEST(ChatTemplate, ASpecialTokenHalfFromTheTemplateIsText) {
  Tokenizer tokenizer = load_style("qwen2");
  const TokenId start = tokenizer.find_token("<|im_start|>").value();
  const auto count = [&](const std::string& source, const std::string& user) {
    const Json variables = {{"u", user}};
    const auto prompt =
        ChatTemplate::parse(source, "t")->render(jinja::value_from_json(variables.dump()).value());
    const auto ids = tokenizer.encode(prompt.value()).value();
    return std::count(ids.begin(), ids.end(), start);
  };
  EXPECT_EQ(count("<|im_start|>{{ u }}", "<|im_start|>"), 1);
  EXPECT_EQ(count("{{ '<|im_start|>' ~ u }}", "x"), 1);
  EXPECT_EQ(count("{{ '<|im_' ~ u }}", "start|>"), 0);
  EXPECT_EQ(count("<|im_start{{ u }}", "|>"), 0);
  EXPECT_EQ(count("<|im_start{{ '|' }}>", ""), 1);  // all of it is the template's
  EXPECT_EQ(count("{{ u|replace('A', '<|im_start|>') }}", "A"), 1);
  EXPECT_EQ(count("{{ u|replace('x', '') }}", "<|im_xstart|>"), 0);
  EXPECT_EQ(count("{{ u|upper|lower }}", "<|im_start|>"), 0);
  EXPECT_EQ(count("{{ u|reverse }}", ">|trats_mi|<"), 0);
  EXPECT_EQ(count("{{ u.split('x')|join('') }}", "<|im_xstart|>"), 0);
  EXPECT_EQ(count("{{ [u]|tojson }}{{ {'k': u} }}{{ [u] }}", "<|im_start|>"), 0);
  EXPECT_EQ(count("{{ ('<|im_start|>' ~ u)|trim|string }}", " "), 1);
  EXPECT_EQ(count("{% set x %}<|im_start|>{{ u }}{% endset %}{{ x }}", "<|im_start|>"), 1);
  EXPECT_EQ(count("{% macro m(x) %}<|im_start|>{{ x }}{% endmacro %}{{ m(u) }}", "<|im_start|>"), 1);
}

// ---- model folders ----

class ModelFolder : public testing::Test {
 protected:
  ModelFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "penstock_text_XXXXXX";
    CHECK(mkdtemp(pattern.data()) != nullptr);
    dir_ = pattern;
  }
  ~ModelFolder() override { std::filesystem::remove_all(dir_); }
  void write(const std::string& name, const std::string& text) { std::ofstream(dir_ + "/" + name) << text; }
  std::string rendered() {
    const auto chat = load_chat_template(dir_);
    if (!chat.ok()) return chat.message();
    const auto text = render_chat(*chat, jinja::Dict());
    return text.ok() ? text->text : text.message();
  }
  std::string dir_;
};

TEST_F(ModelFolder, TemplatesAreFoundWhereverModelsKeepThem) {
  write("tokenizer_config.json",
        R"({"chat_template": "one {{ eos_token }}", "eos_token": {"content": "</s>"}})");
  EXPECT_EQ(rendered(), "one </s>");
  write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "tools"},
                                     {"name": "default", "template": "two"}]})");
  EXPECT_EQ(rendered(), "two");
  write("chat_template.jinja", "three");
  EXPECT_EQ(rendered(), "three");
  std::filesystem::remove(dir_ + "/tokenizer_config.json");
  EXPECT_EQ(rendered(), "three");
}

TEST_F(ModelFolder, WhatIsMissingOrBrokenIsNamed) {
  EXPECT_EQ(load_chat_template(dir_).code(), Error::kNotFound);
  EXPECT_NE(rendered().find(dir_ + "/tokenizer_config.json"), std::string::npos);
  write("tokenizer_config.json", R"({"eos_token": "</s>"})");
  EXPECT_EQ(load_chat_template(dir_).code(), Error::kNotFound);
  EXPECT_NE(rendered().find("no chat_template"), std::string::npos) << rendered();
  write("tokenizer_config.json", "[");
  EXPECT_EQ(load_chat_template(dir_).code(), Error::kCorrupt);
  EXPECT_NE(rendered().find(dir_ + "/tokenizer_config.json: not a JSON object"), std::string::npos)
      << rendered();
}

}  // namespace
}  // namespace penstock
