// Damaged input, the same every time: whatever a byte is changed to, parsing and what follows it end with a
// result or an error, within their limits. Run under the sanitizers too, where a stray read shows.
#include "base/rng.h"
#include "tests/text/vectors.h"
#include "text/chat_template.h"
#include "text/utf8.h"

namespace penstock {
namespace {

class Mutator {
 public:
  Mutator(uint64_t seed, std::vector<std::string> words) : rng_(seed), words_(std::move(words)) {}

  std::string mutate(std::string text) {
    for (uint64_t i = 0, edits = 1 + rng_.below(2); i < edits; ++i) edit(text);
    return text;
  }
  Rng& rng() { return rng_; }

 private:
  void edit(std::string& text) {
    const size_t at = rng_.below(text.size() + 1),
                 length = std::min(text.size() - at, size_t{rng_.below(40)});
    switch (rng_.below(6)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(rng_.below(256));
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(rng_.below(text.size() + 1), length));
        break;
      case 3:
        text.resize(at);
        break;
      default:
        text.replace(at, rng_.below(2) == 0 ? 0 : length, words_[rng_.below(words_.size())]);
    }
  }

  Rng rng_;
  std::vector<std::string> words_;
};

TEST(Mutation, TokenizerJson) {
  Mutator mutator(20261201,
                  {"null", "-1", "0", "1e9", "2147483647", "99999999999999999999", "\"\"", "{}", "[]", "true",
                   "\"a\"", ",", ":", "}", "]", "\\u0000", "\xff", "\"Sequence\"", "[[[["});
  std::vector<std::string> sources;
  for (const char* style : {"gpt2", "llama3"}) {
    golden::Json json =
        golden::Json::parse(golden::read(golden::path(std::string(style) + "_tokenizer.json")));
    // A few tokens only: an edit should hit the rest of the file as often.
    golden::Json vocab = golden::Json::object();
    for (const auto& [content, id] : json["model"]["vocab"].items()) {
      if (id.get<int>() < 300) vocab[content] = id;
    }
    json["model"]["vocab"] = vocab;
    golden::Json& merges = json["model"]["merges"];
    merges.erase(merges.begin() + 20, merges.end());
    sources.push_back(json.dump());
  }
  int loaded = 0;
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    auto tokenizer = Tokenizer::from_json(mutator.mutate(sources[round % 2]), "damaged.json");
    if (!tokenizer.ok()) {
      ASSERT_EQ(tokenizer.message().find("damaged.json: "), 0u) << tokenizer.message();
      continue;
    }
    ++loaded;
    const auto ids = tokenizer->encode("Hello, <|endoftext|> w\xC3\xB6rld 123  \n\t\xFF", ParseSpecial::kYes,
                                       AddSpecial::kYes);
    if (!ids.ok()) continue;  // a regex that gave up
    Detokenizer detokenizer(*tokenizer);
    std::string text;
    for (const TokenId id : *ids) detokenizer.push(id, text);
    ASSERT_EQ(text + detokenizer.flush(), tokenizer->decode(*ids));
  }
  EXPECT_GT(loaded, 100);
}

std::vector<std::string> template_sources() {
  std::vector<std::string> sources;
  for (const golden::Json& row : golden::lines("templates.jsonl")) sources.push_back(row.at("template"));
  for (const golden::Json& row : golden::lines("jinja_cases.jsonl")) {
    if (row.contains("template")) sources.push_back(row.at("template"));
  }
  return sources;
}

TEST(Mutation, Templates) {
  Mutator mutator(20261202, {"{%",
                             "%}",
                             "{{",
                             "}}",
                             "{#",
                             "#}",
                             "-",
                             "|",
                             "loop",
                             "recursive",
                             "range(9)",
                             "[::",
                             "9999999999999999999",
                             "**",
                             "~",
                             "(",
                             ")",
                             "'",
                             "\"",
                             "\\",
                             "{% raw %}",
                             "endfor",
                             "if ",
                             " is ",
                             ".items()",
                             "|tojson",
                             "|map('",
                             "ns.x",
                             "* 99999",
                             "\xff",
                             "{% macro m() %}",
                             "m()"});
  RenderOptions options;
  options.steps_max = 20'000;
  options.bytes_max = 1 << 20;
  const auto sources = template_sources();
  const auto given =
      jinja::value_from_json(golden::lines("jinja_cases.jsonl")[0].at("variables").dump()).value();
  int parsed = 0, rendered = 0;
  for (int round = 0; round < 20'000; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const std::string source = mutator.mutate(sources[mutator.rng().below(sources.size())]);
    const auto chat = ChatTemplate::parse(source, "damaged");
    if (!chat.ok()) {
      ASSERT_EQ(chat.message().find("damaged: "), 0u) << chat.message();
      continue;
    }
    ++parsed;
    const auto text = chat->render(given, options);
    if (!text.ok()) continue;
    ++rendered;
    ASSERT_TRUE(is_valid_utf8(text->text));
    size_t end = 0;
    for (const TextRange& range : text->from_template) {
      ASSERT_TRUE(range.begin < range.end && (end == 0 || range.begin > end));
      end = range.end;
    }
    ASSERT_LE(end, text->text.size());
  }
  EXPECT_GT(parsed, 4000);
  EXPECT_GT(rendered, 1500);
}

TEST(Mutation, Utf8) {
  Mutator mutator(20261203, {"\xC3", "\xE2\x82", "\xF0\x9F\x98", "\xED\xA0\x80", "\xF4\x90", "\xC0\x80",
                             "\x80\xBF", "a"});
  for (int round = 0; round < 50'000; ++round) {
    const std::string bytes = mutator.mutate(
        "Gr\xC3\xBC\xC3\x9F"
        "e \xE2\x82\xAC \xF0\x9F\x98\x80");
    std::string repaired;
    append_repaired_utf8(bytes, repaired);
    ASSERT_TRUE(is_valid_utf8(repaired));
    ASSERT_EQ(is_valid_utf8(bytes), repaired == bytes);
    std::string again;
    for (std::string_view rest = repaired; !rest.empty();) {
      const Utf8Step step = decode_utf8(rest);
      ASSERT_EQ(step.state, Utf8State::kWhole);
      append_utf8(step.code_point, again);
      rest.remove_prefix(step.length);
    }
    ASSERT_EQ(again, repaired);
  }
}

}  // namespace
}  // namespace penstock
