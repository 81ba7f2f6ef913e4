// tokenizer.json files that are broken, or that mean something we do not do: an error that names file and
// field.
#include "text/tokenizer_json.h"

#include <functional>

#include "tests/text/vectors.h"

namespace penstock {
namespace {

using golden::Json;

struct Case {
  std::string field;  // named in the error
  Error code;
  std::function<void(Json&)> damage;
};

Result<Tokenizer> load_damaged(const std::function<void(Json&)>& damage) {
  Json json = Json::parse(golden::read(golden::path("gpt2_tokenizer.json")));
  damage(json);
  return Tokenizer::from_json(json.dump(), "model/tokenizer.json");
}

void expect_refused(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.field);
    const auto result = load_damaged(c.damage);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.code(), c.code) << result.message();
    EXPECT_EQ(result.message().find("model/tokenizer.json: "), 0u) << result.message();
    EXPECT_NE(result.message().find(c.field), std::string::npos) << result.message();
  }
}

Json added(const std::string& content, int64_t id) {
  return {{"id", id}, {"content", content}, {"special", true}};
}

TEST(TokenizerJson, MissingFieldsAreNamed) {
  expect_refused({
      {"model: expected an object", Error::kCorrupt, [](Json& j) { j.erase("model"); }},
      {"model: expected an object", Error::kCorrupt, [](Json& j) { j["model"] = 7; }},
      {"model.vocab: expected", Error::kCorrupt, [](Json& j) { j["model"].erase("vocab"); }},
      {"model.vocab: expected", Error::kCorrupt, [](Json& j) { j["model"]["vocab"] = Json::object(); }},
      {"model.merges: expected a list", Error::kCorrupt, [](Json& j) { j["model"].erase("merges"); }},
      {"pre_tokenizer: ", Error::kUnsupported, [](Json& j) { j.erase("pre_tokenizer"); }},
      {"pre_tokenizer.type: expected a string", Error::kCorrupt,
       [](Json& j) { j["pre_tokenizer"].erase("type"); }},
      {"added_tokens[0].content: expected", Error::kCorrupt,
       [](Json& j) { j["added_tokens"][0].erase("content"); }},
      {"added_tokens[0].id: expected", Error::kCorrupt, [](Json& j) { j["added_tokens"][0].erase("id"); }},
      {"added_tokens[1]: expected an object", Error::kCorrupt,
       [](Json& j) { j["added_tokens"].push_back(1); }},
  });
}

TEST(TokenizerJson, ContradictoryIdsAreNamed) {
  expect_refused({
      {"model.vocab: id 64 belongs to 'a' and 'twin'", Error::kCorrupt,
       [](Json& j) { j["model"]["vocab"]["twin"] = j["model"]["vocab"]["a"]; }},
      {"model.vocab['a']: expected an id", Error::kCorrupt, [](Json& j) { j["model"]["vocab"]["a"] = -1; }},
      {"model.vocab['a']: expected an id", Error::kCorrupt, [](Json& j) { j["model"]["vocab"]["a"] = "1"; }},
      {"model.vocab['a']: expected an id", Error::kCorrupt, [](Json& j) { j["model"]["vocab"]["a"] = 1.5; }},
      {"model.vocab['a']: expected an id", Error::kCorrupt,
       [](Json& j) { j["model"]["vocab"]["a"] = 1LL << 40; }},
      {"model.vocab: 'a' has id 2000000000, far above", Error::kCorrupt,
       [](Json& j) { j["model"]["vocab"]["a"] = 2'000'000'000; }},
      {"added_tokens: 'x' has id 2000000000, far above", Error::kCorrupt,
       [](Json& j) { j["added_tokens"].push_back(added("x", 2'000'000'000)); }},
      {"added_tokens: 'a' has id 64 and id 1001", Error::kCorrupt,
       [](Json& j) { j["added_tokens"].push_back(added("a", 1001)); }},
      {"added_tokens: id 64 belongs to 'a' and '<x>'", Error::kCorrupt,
       [](Json& j) { j["added_tokens"].push_back(added("<x>", 64)); }},
      {"added_tokens: '<|endoftext|>' has id 1000 and id 1001", Error::kCorrupt,
       [](Json& j) { j["added_tokens"].push_back(added("<|endoftext|>", 1001)); }},
  });
  EXPECT_TRUE(load_damaged([](Json& j) {
                j["added_tokens"].push_back(j["added_tokens"][0]);
              }).ok());  // repeats itself
}

// A key twice in one object: which of the two ids is meant?
TEST(TokenizerJson, ATokenTwiceInTheVocabularyIsRefused) {
  std::string text = golden::read(golden::path("gpt2_tokenizer.json"));
  const std::string vocab = "\"vocab\":";
  const size_t at = text.find('{', text.find(vocab)) + 1;
  text.insert(at, "\"a\": 900,");
  const auto result = Tokenizer::from_json(text, "t.json");
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.message().find("t.json: model.vocab: 'a' has id 900 and id 64"), std::string::npos)
      << result.message();
}

TEST(TokenizerJson, BadMergesAreNamed) {
  const auto merge = [](Json value) { return [value](Json& j) { j["model"]["merges"][3] = value; }; };
  expect_refused({
      {"model.merges[3]: expected", Error::kCorrupt, merge("one")},
      {"model.merges[3]: expected", Error::kCorrupt, merge("one two three")},
      {"model.merges[3]: expected", Error::kCorrupt, merge(" a")},
      {"model.merges[3]: expected", Error::kCorrupt, merge("")},
      {"model.merges[3]: expected", Error::kCorrupt, merge(7)},
      {"model.merges[3]: expected", Error::kCorrupt, merge(Json::array({"a"}))},
      {"model.merges[3]: expected", Error::kCorrupt, merge(Json::array({"a", 1}))},
      {"model.merges[3]: 'nosuch' is not in the vocabulary", Error::kCorrupt, merge("nosuch a")},
      {"model.merges[3]: 'nosuch' is not in the vocabulary", Error::kCorrupt, merge("a nosuch")},
      {"model.merges[3]: 'aQ' is not in the vocabulary", Error::kCorrupt, merge(Json::array({"a", "Q"}))},
  });
}

TEST(TokenizerJson, WhatWouldChangeIdsIsRefusedByName) {
  const auto set = [](const char* where, Json value) {
    return [where, value](Json& j) { j[Json::json_pointer(where)] = value; };
  };
  expect_refused({
      {"model.type: 'Unigram'", Error::kUnsupported, set("/model/type", "Unigram")},
      {"model.byte_fallback: ", Error::kUnsupported, set("/model/byte_fallback", true)},
      {"model.dropout: ", Error::kUnsupported, set("/model/dropout", 0.1)},
      {"model.end_of_word_suffix: ", Error::kUnsupported, set("/model/end_of_word_suffix", "</w>")},
      {"normalizer.type: 'NFKC'", Error::kUnsupported, set("/normalizer", Json{{"type", "NFKC"}})},
      {"decoder.type: 'Metaspace'", Error::kUnsupported, set("/decoder", Json{{"type", "Metaspace"}})},
      {"post_processor.type: 'BertProcessing'", Error::kUnsupported,
       set("/post_processor", Json{{"type", "BertProcessing"}})},
      {"pre_tokenizer.type: 'Whitespace'", Error::kUnsupported,
       set("/pre_tokenizer", Json{{"type", "Whitespace"}})},
      {"pre_tokenizer.add_prefix_space: true", Error::kUnsupported,
       set("/pre_tokenizer/add_prefix_space", true)},
      {"post_processor.special_tokens['<s>'].ids: expected", Error::kCorrupt,
       set("/post_processor",
           Json::parse(R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}]})"))},
      {"post_processor: id 5000 is not in the vocabulary", Error::kCorrupt,
       set("/post_processor",
           Json::parse(R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}],
                                              "special_tokens": {"<s>": {"ids": [5000]}}})"))},
  });
}

TEST(TokenizerJson, NotJsonIsRefused) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("{\"a\": \xff}"),
        std::string(5000, '[') + std::string(5000, ']')}) {
    const auto result = Tokenizer::from_json(text, "t.json");
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.code(), Error::kCorrupt);
    EXPECT_EQ(result.message().find("t.json: "), 0u) << result.message();
  }
}

// As deep as the JSON reader goes; each level is a pre-tokenizer of its own.
TEST(TokenizerJson, NestedSequencesEndSomewhere) {
  for (const int levels : {300, 100'000}) {
    std::string nested = R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})";
    const std::string open = R"({"type": "Sequence", "pretokenizers": [)";
    std::string text;
    for (int i = 0; i < levels; ++i) text += open;
    text += nested;
    for (int i = 0; i < levels; ++i) text += "]}";
    const auto result = Tokenizer::from_json("{\"pre_tokenizer\": " + text + "}", "t.json");
    ASSERT_FALSE(result.ok());  // no model, or too deep
    EXPECT_EQ(result.code(), Error::kCorrupt) << result.message();
  }
}

TEST(TokenizerJson, AFileThatCannotBeReadIsNamed) {
  const auto none = Tokenizer::from_file(golden::path("none.json"));
  EXPECT_EQ(none.code(), Error::kNotFound);
  EXPECT_NE(none.message().find("none.json"), std::string::npos) << none.message();
  const auto folder = Tokenizer::from_file(golden::path(""));
  EXPECT_EQ(folder.code(), Error::kIo) << folder.message();
}

}  // namespace
}  // namespace penstock
