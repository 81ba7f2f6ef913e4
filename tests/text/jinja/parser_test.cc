#include "text/jinja/parser.h"

#include "tests/text/jinja/cases.h"

namespace penstock::jinja {
namespace {

std::string repeated(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

TEST(Parser, WhatItDoesNotKnowIsRefusedByName) {
  for (const auto& [source, word] : {std::pair("a\n{% include 'x' %}", "include"),
                                     {"\n{% extends 'x' %}", "extends"},
                                     {"\n{% block b %}{% endblock %}", "block"},
                                     {"\n{% do x %}", "do"}}) {
    const auto parsed = parse_template(source);
    ASSERT_FALSE(parsed.ok()) << source;
    EXPECT_EQ(parsed.message().find("line 2: "), 0u) << parsed.message();
    EXPECT_NE(parsed.message().find(word), std::string::npos) << parsed.message();
  }
}

TEST(Parser, AnOpenBlockIsNamed) {
  const auto parsed = parse_template("{% if a %}\n{% for x in y %}\n{% endif %}");
  ASSERT_FALSE(parsed.ok());
  EXPECT_NE(parsed.message().find("endif"), std::string::npos) << parsed.message();
  const auto open = parse_template("{% if a %}");
  ASSERT_FALSE(open.ok());
  EXPECT_NE(open.message().find("missing 'endif'"), std::string::npos) << open.message();
}

// Each of these would overflow the stack of a parser, an evaluator or a destructor that knows no bound.
TEST(Parser, DeepNestingIsAnError) {
  constexpr int kDeep = 100'000;
  const std::string sources[] = {
      "{{ " + repeated("(", kDeep) + "1" + repeated(")", kDeep) + " }}",
      "{{ " + repeated("[", kDeep) + repeated("]", kDeep) + " }}",
      "{{ " + repeated("{1:", kDeep) + "1" + repeated("}", kDeep) + " }}",
      "{{ " + repeated("not ", kDeep) + "1 }}",
      "{{ " + repeated("- ", kDeep) + "1 }}",
      "{{ x" + repeated(".a", kDeep) + " }}",
      "{{ x" + repeated("[0]", kDeep) + " }}",
      "{{ x" + repeated("()", kDeep) + " }}",
      "{{ x" + repeated("|trim", kDeep) + " }}",
      "{{ 1" + repeated("+1", kDeep) + " }}",
      "{{ 1" + repeated("**1", kDeep) + " }}",
      "{{ 1" + repeated(" and 1", kDeep) + " }}",
      "{{ 1" + repeated(" if 1 else 1", kDeep) + " }}",
      repeated("{% if 1 %}", kDeep) + repeated("{% endif %}", kDeep),
      repeated("{% for a in b %}", kDeep) + repeated("{% endfor %}", kDeep),
  };
  for (const std::string& source : sources) {
    SCOPED_TRACE(source.substr(0, 40));
    const auto parsed = parse_template(source);
    ASSERT_FALSE(parsed.ok());
    EXPECT_NE(parsed.message().find("nested too deeply"), std::string::npos) << parsed.message();
  }
}

TEST(Parser, LongIsNotDeep) {
  EXPECT_EQ(render("{{ 1" + repeated(" ~ 1", 20'000) + " }}").value().size(), 20'001u);
  EXPECT_EQ(render("{% if 0 %}" + repeated("{% elif 0 %}", 20'000) + "{% else %}e{% endif %}").value(), "e");
}

}  // namespace
}  // namespace penstock::jinja
