#include "text/jinja/expression_parser.h"

#include <algorithm>
#include <charconv>

namespace penstock::jinja {
namespace {

constexpr std::string_view kComparisons[] = {"==", "!=", "<", "<=", ">", ">="};

ExpressionPtr move_to_heap(Expression node) { return std::make_unique<const Expression>(std::move(node)); }

}  // namespace

Expression ExpressionParser::start(ExpressionKind kind) const {
  Expression node;
  node.kind = kind;
  node.line = tokens_.line();
  return node;
}

Result<ExpressionPtr> ExpressionParser::finish(Expression node) const {
  int deepest = 0;
  for (const auto& child : node.children) {
    if (child != nullptr) deepest = std::max(deepest, child->depth);
  }
  for (const auto& [name, child] : node.named) deepest = std::max(deepest, child->depth);
  node.depth = deepest + 1;
  if (node.depth > kTreeDepthMax) return syntax_error(node.line, "expression is nested too deeply");
  return move_to_heap(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::parse(bool with_conditional) {
  if (++nesting_ > kNestingMax) return syntax_error(tokens_.line(), "expression is nested too deeply");
  auto node = with_conditional ? parse_conditional() : parse_or();
  --nesting_;
  return node;
}

Result<ExpressionPtr> ExpressionParser::parse_tuple(bool with_conditional) {
  Expression tuple = start(ExpressionKind::kTuple);
  ASSIGN_OR_RETURN(ExpressionPtr first, parse(with_conditional));
  if (!tokens_.is_operator(",")) return first;
  tuple.children.push_back(std::move(first));
  while (tokens_.skip_operator(",")) {
    if (!tokens_.is(TokenKind::kName) && !tokens_.is(TokenKind::kString) &&
        !tokens_.is(TokenKind::kInteger) && !tokens_.is(TokenKind::kFloat) && !tokens_.is_operator("(") &&
        !tokens_.is_operator("[") && !tokens_.is_operator("{") && !tokens_.is_operator("-") &&
        !tokens_.is_operator("+")) {
      break;  // a comma at the end
    }
    ASSIGN_OR_RETURN(ExpressionPtr item, parse(with_conditional));
    tuple.children.push_back(std::move(item));
  }
  return finish(std::move(tuple));
}

Result<ExpressionPtr> ExpressionParser::parse_conditional() {
  ASSIGN_OR_RETURN(ExpressionPtr value, parse_or());
  while (tokens_.is_name("if")) {
    Expression node = start(ExpressionKind::kConditional);
    tokens_.next();
    ASSIGN_OR_RETURN(ExpressionPtr condition, parse_or());
    ExpressionPtr otherwise;
    if (tokens_.skip_name("else")) {
      ASSIGN_OR_RETURN(otherwise, parse());
    }
    node.children.push_back(std::move(value));
    node.children.push_back(std::move(condition));
    node.children.push_back(std::move(otherwise));
    ASSIGN_OR_RETURN(value, finish(std::move(node)));
  }
  return value;
}

Result<ExpressionPtr> ExpressionParser::parse_or() {
  ASSIGN_OR_RETURN(ExpressionPtr left, parse_and());
  while (tokens_.is_name("or")) {
    Expression node = start(ExpressionKind::kOr);
    tokens_.next();
    ASSIGN_OR_RETURN(ExpressionPtr right, parse_and());
    node.children.push_back(std::move(left));
    node.children.push_back(std::move(right));
    ASSIGN_OR_RETURN(left, finish(std::move(node)));
  }
  return left;
}

Result<ExpressionPtr> ExpressionParser::parse_and() {
  ASSIGN_OR_RETURN(ExpressionPtr left, parse_not());
  while (tokens_.is_name("and")) {
    Expression node = start(ExpressionKind::kAnd);
    tokens_.next();
    ASSIGN_OR_RETURN(ExpressionPtr right, parse_not());
    node.children.push_back(std::move(left));
    node.children.push_back(std::move(right));
    ASSIGN_OR_RETURN(left, finish(std::move(node)));
  }
  return left;
}

Result<ExpressionPtr> ExpressionParser::parse_not() {
  if (!tokens_.is_name("not")) return parse_compare();
  Expression node = start(ExpressionKind::kNot);
  tokens_.next();
  if (++nesting_ > kNestingMax) return syntax_error(tokens_.line(), "expression is nested too deeply");
  ASSIGN_OR_RETURN(ExpressionPtr operand, parse_not());
  --nesting_;
  node.children.push_back(std::move(operand));
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::parse_compare() {
  Expression node = start(ExpressionKind::kCompare);
  ASSIGN_OR_RETURN(ExpressionPtr first, parse_sum());
  node.children.push_back(std::move(first));
  for (;;) {
    const Token& token = tokens_.peek();
    const bool is_comparison =
        token.kind == TokenKind::kOperator &&
        std::find(std::begin(kComparisons), std::end(kComparisons), token.text) != std::end(kComparisons);
    if (is_comparison || tokens_.is_name("in")) {
      node.operators.push_back(tokens_.next().text);
    } else if (tokens_.is_name("not") && tokens_.is_name("in", 1)) {
      tokens_.next();
      tokens_.next();
      node.operators.push_back("not in");
    } else {
      break;
    }
    ASSIGN_OR_RETURN(ExpressionPtr operand, parse_sum());
    node.children.push_back(std::move(operand));
  }
  if (node.operators.empty()) return std::move(node.children[0]);
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::parse_binary_chain(std::initializer_list<std::string_view> operators,
                                                           Level operand) {
  ASSIGN_OR_RETURN(ExpressionPtr left, (this->*operand)());
  for (;;) {
    const auto matches = [this](std::string_view op) { return tokens_.is_operator(op); };
    if (std::none_of(operators.begin(), operators.end(), matches)) return left;
    Expression node = start(ExpressionKind::kBinary);
    node.name = tokens_.next().text;
    ASSIGN_OR_RETURN(ExpressionPtr right, (this->*operand)());
    node.children.push_back(std::move(left));
    node.children.push_back(std::move(right));
    ASSIGN_OR_RETURN(left, finish(std::move(node)));
  }
}

Result<ExpressionPtr> ExpressionParser::parse_sum() {
  return parse_binary_chain({"+", "-"}, &ExpressionParser::parse_concat);
}

Result<ExpressionPtr> ExpressionParser::parse_concat() {
  Expression node = start(ExpressionKind::kConcat);
  do {
    ASSIGN_OR_RETURN(ExpressionPtr operand, parse_product());
    node.children.push_back(std::move(operand));
  } while (tokens_.skip_operator("~"));
  if (node.children.size() == 1) return std::move(node.children[0]);
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::parse_product() {
  return parse_binary_chain({"*", "/", "//", "%"}, &ExpressionParser::parse_power);
}

Result<ExpressionPtr> ExpressionParser::parse_power() {
  return parse_binary_chain({"**"}, &ExpressionParser::parse_filtered);
}

Result<ExpressionPtr> ExpressionParser::parse_unary(bool with_filters) {
  ExpressionPtr value;
  if (tokens_.is_operator("-") || tokens_.is_operator("+")) {
    Expression node = start(tokens_.is_operator("-") ? ExpressionKind::kNegate : ExpressionKind::kPlus);
    tokens_.next();
    if (++nesting_ > kNestingMax) return syntax_error(tokens_.line(), "expression is nested too deeply");
    ASSIGN_OR_RETURN(ExpressionPtr operand, parse_unary(false));
    --nesting_;
    node.children.push_back(std::move(operand));
    ASSIGN_OR_RETURN(value, finish(std::move(node)));
  } else {
    ASSIGN_OR_RETURN(value, parse_primary());
  }
  ASSIGN_OR_RETURN(value, parse_postfix(std::move(value)));
  return with_filters ? parse_filters(std::move(value)) : Result<ExpressionPtr>(std::move(value));
}

Result<ExpressionPtr> ExpressionParser::parse_primary() {
  if (tokens_.is(TokenKind::kName)) return parse_name();
  if (tokens_.is(TokenKind::kInteger) || tokens_.is(TokenKind::kFloat)) return parse_number();
  if (tokens_.is(TokenKind::kString)) {
    Expression node = start(ExpressionKind::kConstant);
    std::string text;
    while (tokens_.is(TokenKind::kString)) text += tokens_.next().text;  // 'a' 'b' is 'ab'
    node.constant = Value::string(std::move(text), Origin::kTemplate);
    return finish(std::move(node));
  }
  if (tokens_.is_operator("[")) return parse_list();
  if (tokens_.is_operator("{")) return parse_dict();
  if (!tokens_.is_operator("(")) return tokens_.unexpected("an expression");
  Expression empty = start(ExpressionKind::kTuple);
  tokens_.next();
  if (tokens_.skip_operator(")")) return finish(std::move(empty));
  ASSIGN_OR_RETURN(ExpressionPtr inner, parse_tuple());
  RETURN_IF_ERROR(tokens_.expect_operator(")"));
  return inner;
}

Result<ExpressionPtr> ExpressionParser::parse_name() {
  Expression node = start(ExpressionKind::kConstant);
  const std::string name = tokens_.next().text;
  if (name == "true" || name == "True") {
    node.constant = Value(true);
  } else if (name == "false" || name == "False") {
    node.constant = Value(false);
  } else if (name == "none" || name == "None") {
    node.constant = Value(None{});
  } else {
    node.kind = ExpressionKind::kName;
    node.name = name;
  }
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::parse_number() {
  Expression node = start(ExpressionKind::kConstant);
  const Token token = tokens_.next();
  const char* end = token.text.data() + token.text.size();
  if (token.kind == TokenKind::kInteger) {
    int64_t value = 0;
    if (std::from_chars(token.text.data(), end, value).ec != std::errc()) {
      return syntax_error(token.line, token.text + " does not fit in 64 bits");
    }
    node.constant = Value(value);
  } else {
    double value = 0;
    if (std::from_chars(token.text.data(), end, value).ec != std::errc()) {
      return syntax_error(token.line, token.text + " is out of range");
    }
    node.constant = Value(value);
  }
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::parse_list() {
  Expression node = start(ExpressionKind::kList);
  tokens_.next();
  while (!tokens_.is_operator("]")) {
    if (!node.children.empty()) {
      RETURN_IF_ERROR(tokens_.expect_operator(","));
      if (tokens_.is_operator("]")) break;
    }
    ASSIGN_OR_RETURN(ExpressionPtr item, parse());
    node.children.push_back(std::move(item));
  }
  tokens_.next();
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::parse_dict() {
  Expression node = start(ExpressionKind::kDict);
  tokens_.next();
  while (!tokens_.is_operator("}")) {
    if (!node.children.empty()) {
      RETURN_IF_ERROR(tokens_.expect_operator(","));
      if (tokens_.is_operator("}")) break;
    }
    ASSIGN_OR_RETURN(ExpressionPtr key, parse());
    RETURN_IF_ERROR(tokens_.expect_operator(":"));
    ASSIGN_OR_RETURN(ExpressionPtr value, parse());
    node.children.push_back(std::move(key));
    node.children.push_back(std::move(value));
  }
  tokens_.next();
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::parse_postfix(ExpressionPtr node) {
  for (;;) {
    if (tokens_.is_operator(".") || tokens_.is_operator("[")) {
      ASSIGN_OR_RETURN(node, parse_subscript(std::move(node)));
    } else if (tokens_.is_operator("(")) {
      ASSIGN_OR_RETURN(node, parse_call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExpressionPtr> ExpressionParser::parse_filters(ExpressionPtr node) {
  for (;;) {
    if (tokens_.skip_operator("|")) {
      ASSIGN_OR_RETURN(node, parse_filter(std::move(node)));
    } else if (tokens_.is_name("is")) {
      ASSIGN_OR_RETURN(node, parse_test(std::move(node)));
    } else if (tokens_.is_operator("(")) {
      ASSIGN_OR_RETURN(node, parse_call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExpressionPtr> ExpressionParser::parse_subscript(ExpressionPtr object) {
  Expression node = start(ExpressionKind::kItem);
  node.children.push_back(std::move(object));
  if (tokens_.skip_operator(".")) {
    if (tokens_.is(TokenKind::kInteger)) {
      ASSIGN_OR_RETURN(ExpressionPtr index, parse_number());
      node.children.push_back(std::move(index));
    } else {
      node.kind = ExpressionKind::kAttribute;
      ASSIGN_OR_RETURN(node.name, tokens_.expect_name());
    }
    return finish(std::move(node));
  }
  tokens_.next();
  ExpressionPtr parts[3];
  if (!tokens_.is_operator(":")) {
    ASSIGN_OR_RETURN(parts[0], parse_tuple());
  }
  if (tokens_.is_operator(":")) node.kind = ExpressionKind::kSlice;
  for (int i = 1; i < 3 && tokens_.skip_operator(":"); ++i) {
    if (tokens_.is_operator(":") || tokens_.is_operator("]")) continue;
    ASSIGN_OR_RETURN(parts[i], parse());
  }
  RETURN_IF_ERROR(tokens_.expect_operator("]"));
  const int count = node.kind == ExpressionKind::kSlice ? 3 : 1;
  for (int i = 0; i < count; ++i) node.children.push_back(std::move(parts[i]));
  return finish(std::move(node));
}

Status ExpressionParser::parse_arguments(Expression& call) {
  RETURN_IF_ERROR(tokens_.expect_operator("("));
  bool first = true;
  while (!tokens_.is_operator(")")) {
    if (!first) {
      RETURN_IF_ERROR(tokens_.expect_operator(","));
      if (tokens_.is_operator(")")) break;
    }
    first = false;
    if (tokens_.is_operator("*") || tokens_.is_operator("**")) {
      return syntax_error(tokens_.line(), "unpacking of arguments (* and **) is not supported");
    }
    if (tokens_.is(TokenKind::kName) && tokens_.is_operator("=", 1)) {
      std::string name = tokens_.next().text;
      tokens_.next();
      ASSIGN_OR_RETURN(ExpressionPtr value, parse());
      call.named.emplace_back(std::move(name), std::move(value));
      continue;
    }
    if (!call.named.empty())
      return syntax_error(tokens_.line(), "argument without a name after one with a name");
    ASSIGN_OR_RETURN(ExpressionPtr value, parse());
    call.children.push_back(std::move(value));
  }
  tokens_.next();
  return {};
}

Result<ExpressionPtr> ExpressionParser::parse_call(ExpressionPtr callee) {
  Expression node = start(ExpressionKind::kCall);
  node.children.push_back(std::move(callee));
  RETURN_IF_ERROR(parse_arguments(node));
  return finish(std::move(node));
}

// Names of filters and tests may have dots: `x|a.b` is the filter "a.b", not an attribute.
Result<std::string> ExpressionParser::parse_dotted_name() {
  ASSIGN_OR_RETURN(std::string name, tokens_.expect_name());
  while (tokens_.skip_operator(".")) {
    ASSIGN_OR_RETURN(const std::string part, tokens_.expect_name());
    name += "." + part;
  }
  return name;
}

Result<ExpressionPtr> ExpressionParser::parse_filter(ExpressionPtr input) {
  Expression node = start(ExpressionKind::kFilter);
  ASSIGN_OR_RETURN(node.name, parse_dotted_name());
  node.children.push_back(std::move(input));
  if (tokens_.is_operator("(")) RETURN_IF_ERROR(parse_arguments(node));
  return finish(std::move(node));
}

// x is test, x is not test, x is test(1), x is test 1.
Result<ExpressionPtr> ExpressionParser::parse_test(ExpressionPtr input) {
  Expression node = start(ExpressionKind::kTest);
  tokens_.next();
  const bool negated = tokens_.skip_name("not");
  ASSIGN_OR_RETURN(node.name, parse_dotted_name());
  node.children.push_back(std::move(input));
  if (tokens_.is_name("is")) return syntax_error(node.line, "tests cannot be chained: write `and`");
  const bool starts_argument =
      tokens_.is(TokenKind::kString) || tokens_.is(TokenKind::kInteger) || tokens_.is(TokenKind::kFloat) ||
      tokens_.is_operator("[") || tokens_.is_operator("{") ||
      (tokens_.is(TokenKind::kName) && !tokens_.is_name("else") && !tokens_.is_name("or") &&
       !tokens_.is_name("and") && !tokens_.is_name("if") && !tokens_.is_name("not") &&
       !tokens_.is_name("in") && !tokens_.is_name("recursive"));
  if (tokens_.is_operator("(")) {
    RETURN_IF_ERROR(parse_arguments(node));
  } else if (starts_argument) {
    ASSIGN_OR_RETURN(ExpressionPtr argument, parse_primary());
    ASSIGN_OR_RETURN(argument, parse_postfix(std::move(argument)));
    node.children.push_back(std::move(argument));
  }
  const int line = node.line;
  ASSIGN_OR_RETURN(ExpressionPtr test, finish(std::move(node)));
  if (!negated) return test;
  Expression inverse;
  inverse.kind = ExpressionKind::kNot;
  inverse.line = line;
  inverse.children.push_back(std::move(test));
  return finish(std::move(inverse));
}

}  // namespace penstock::jinja
