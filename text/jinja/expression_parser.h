// Parses expressions, by recursive descent in Jinja's order of precedence (loosest first):
//   a if c else b, or, and, not, comparisons and in, + -, ~, * / // %, **, unary - +, postfix, filters and
//   tests.
#pragma once

#include <initializer_list>
#include <string_view>

#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/token_stream.h"

namespace penstock::jinja {

inline constexpr int kNestingMax = 100;    // brackets and blocks within each other
inline constexpr int kTreeDepthMax = 200;  // also chains such as a + b + c ...

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  Result<ExpressionPtr> parse(bool with_conditional = true);
  // One expression, or several with commas between as a tuple.
  Result<ExpressionPtr> parse_tuple(bool with_conditional = true);
  // `name(arguments)` after a pipe, over `input` (null: the block it stands before).
  Result<ExpressionPtr> parse_filter(ExpressionPtr input);

 private:
  using Level = Result<ExpressionPtr> (ExpressionParser::*)();
  Result<ExpressionPtr> parse_conditional();
  Result<ExpressionPtr> parse_or();
  Result<ExpressionPtr> parse_and();
  Result<ExpressionPtr> parse_not();
  Result<ExpressionPtr> parse_compare();
  Result<ExpressionPtr> parse_sum();
  Result<ExpressionPtr> parse_concat();
  Result<ExpressionPtr> parse_product();
  Result<ExpressionPtr> parse_power();
  Result<ExpressionPtr> parse_unary(bool with_filters);
  Result<ExpressionPtr> parse_filtered() { return parse_unary(true); }
  Result<ExpressionPtr> parse_primary();
  Result<ExpressionPtr> parse_name();
  Result<ExpressionPtr> parse_number();
  Result<ExpressionPtr> parse_list();
  Result<ExpressionPtr> parse_dict();
  Result<ExpressionPtr> parse_postfix(ExpressionPtr node);
  Result<ExpressionPtr> parse_filters(ExpressionPtr node);
  Result<ExpressionPtr> parse_subscript(ExpressionPtr node);
  Result<ExpressionPtr> parse_call(ExpressionPtr node);
  Result<ExpressionPtr> parse_test(ExpressionPtr node);
  Result<ExpressionPtr> parse_binary_chain(std::initializer_list<std::string_view> operators, Level operand);
  Result<std::string> parse_dotted_name();
  Status parse_arguments(Expression& call);
  // Closes a node: its depth from its children's, refused when the tree gets too deep.
  Result<ExpressionPtr> finish(Expression node) const;
  Expression start(ExpressionKind kind) const;

  TokenStream& tokens_;
  int nesting_ = 0;
};

}  // namespace penstock::jinja
