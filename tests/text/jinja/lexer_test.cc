#include "text/jinja/lexer.h"

#include "tests/text/jinja/cases.h"

namespace penstock::jinja {
namespace {

TEST(Lexer, WhiteSpaceTagsAndLiteralsAsJinja2) { expect_cases("lexer", 56); }

TEST(Lexer, TokensKnowTheirLine) {
  const auto tokens = tokenize_template("a\n{# two\nlines #}\n{{ x }}").value();
  ASSERT_EQ(tokens.size(), 5u);
  EXPECT_EQ(tokens[0].kind, TokenKind::kText);
  EXPECT_EQ(tokens[1].kind, TokenKind::kVariableBegin);
  EXPECT_EQ(tokens[1].line, 4);
  EXPECT_EQ(tokens[2].text, "x");
  EXPECT_EQ(tokens.back().kind, TokenKind::kEnd);
}

TEST(Lexer, ErrorsNameTheLine) {
  for (const auto& [source, line] : {std::pair("\n\n{{ 'open }}", "line 3:"),
                                     {"{# open", "line 1:"},
                                     {"\n{{ $ }}", "line 2:"},
                                     {"\n\n\n{% raw %} open", "line 4:"}}) {
    const auto tokens = tokenize_template(source);
    ASSERT_FALSE(tokens.ok()) << source;
    EXPECT_EQ(tokens.code(), Error::kInvalidArgument);
    EXPECT_EQ(tokens.message().find(line), 0u) << tokens.message();
  }
}

}  // namespace
}  // namespace penstock::jinja
