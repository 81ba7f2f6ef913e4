#include "text/jinja/renderer.h"

#include "tests/text/jinja/cases.h"

namespace penstock::jinja {
namespace {

TEST(Renderer, StatementsAsJinja2) { expect_cases("statements", 104); }
TEST(Renderer, ExpressionsAsJinja2) { expect_cases("expressions", 155); }

// What is not supported must not pass for something else.
TEST(Renderer, WhatItCannotDoFails) {
  size_t refused = 0;
  for (const golden::Json& row : golden::lines("jinja_cases.jsonl")) {
    if (!row.contains("group") || row["group"] != "unsupported") continue;
    const auto result = render(row.at("template").get<std::string>(), variables(R"({"s": "Hello, World"})"));
    EXPECT_FALSE(result.ok()) << row.at("template") << " gave " << *result;
    ++refused;
  }
  EXPECT_EQ(refused, 23u);
}

TEST(Renderer, TheClockIsGivenFromOutside) {
  RenderOptions options;
  options.local_time = [] {
    std::tm time{};
    time.tm_year = 126, time.tm_mon = 2, time.tm_mday = 5, time.tm_hour = 14;
    return time;
  };
  EXPECT_EQ(render("{{ strftime_now('%d %b %Y %H') }}", variables("{}"), options).value(), "05 Mar 2026 14");
  EXPECT_EQ(render("{{ strftime_now is defined }}").value(), "False");
}

TEST(Renderer, ErrorsNameTemplateAndLine) {
  const auto result = render("a\nb {{ n }}\n{{ 1 +\n n.x.y }}", variables(R"({"n": 1})"));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.code(), Error::kInvalidArgument);
  EXPECT_EQ(result.message().find("case: line "), 0u) << result.message();
  EXPECT_NE(result.message().find("UndefinedError: 'int object' has no attribute 'x'"), std::string::npos)
      << result.message();
}

TEST(Renderer, ManyVariablesAreFound) {
  std::string source;
  for (int i = 0; i < 2000; ++i) source += "{% set v" + std::to_string(i) + " = " + std::to_string(i) + " %}";
  EXPECT_EQ(render(source + "{% set v3 = 'x' %}{{ v0 }} {{ v3 }} {{ v1999 }} {{ v2000 is defined }}").value(),
            "0 x 1999 False");
}

}  // namespace
}  // namespace penstock::jinja
