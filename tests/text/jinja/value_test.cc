#include "text/jinja/value.h"

#include "tests/text/jinja/cases.h"

namespace penstock::jinja {
namespace {

using namespace std::literals;

TEST(Value, JsonKeepsOrderAndKinds) {
  const Value value = variables(R"({"b": 1, "a": [true, null, 2.0, "é"], "b": 3})");
  ASSERT_TRUE(value.is(ValueKind::kDict));
  const auto& entries = value.as_dict().entries();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].first.text(), "b");
  EXPECT_EQ(entries[0].second.as_int(), 3);  // a repeated key: first place, last value, as in Python
  const auto& items = entries[1].second.items();
  EXPECT_TRUE(items[0].as_bool());
  EXPECT_TRUE(items[1].is(ValueKind::kNone));
  EXPECT_EQ(items[2].as_float(), 2.0);
  EXPECT_EQ(items[3].text(), "é");
  EXPECT_TRUE(items[3].as_string().from_template.empty());  // a request's text is never the template's
}

TEST(Value, BadJsonIsRefused) {
  for (const char* json : {"", "{", "[1,]", "18446744073709551615", "\"\xff\"", "{\"a\": nan}"}) {
    const auto value = value_from_json(json);
    ASSERT_FALSE(value.ok()) << json;
    EXPECT_EQ(value.code(), Error::kInvalidArgument);
  }
  EXPECT_FALSE(value_from_json(std::string(300, '[') + std::string(300, ']')).ok());
}

// Python's keys: 1, 1.0 and true are one; "1" is another.
TEST(Dict, KeysAreThoseOfPython) {
  for (const int others : {0, 40}) {  // scanned, indexed
    Dict dict;
    for (int i = 0; i < others; ++i) dict.set("k" + std::to_string(i), Value(int64_t{i}));
    dict.set(Value(int64_t{1}), Value(int64_t{10}));
    dict.set(Value(1.0), Value(int64_t{11}));
    dict.set(Value(true), Value(int64_t{12}));
    dict.set("1"s, Value(int64_t{20}));
    dict.set(Value(2.5), Value(int64_t{30}));
    dict.set(Value(None{}), Value(int64_t{40}));
    ASSERT_EQ(dict.size(), static_cast<size_t>(others) + 4);
    EXPECT_EQ(dict.find(Value(int64_t{1}))->as_int(), 12);
    EXPECT_EQ(dict.find("1"sv)->as_int(), 20);
    EXPECT_EQ(dict.find(Value(2.5))->as_int(), 30);
    EXPECT_EQ(dict.find(Value(None{}))->as_int(), 40);
    EXPECT_EQ(dict.find("2.5"sv), nullptr);
    if (others > 0) {
      EXPECT_EQ(dict.find("k39"sv)->as_int(), 39);
    }
  }
}

}  // namespace
}  // namespace penstock::jinja
