#include "text/jinja/parser.h"

#include <algorithm>
#include <span>

#include "text/jinja/expression_parser.h"
#include "text/jinja/lexer.h"
#include "text/jinja/token_stream.h"
#include "text/utf8.h"

namespace penstock::jinja {
namespace {

using StatementPtr = std::unique_ptr<const Statement>;

class StatementParser {
 public:
  explicit StatementParser(std::vector<Token> tokens) : tokens_(std::move(tokens)), expressions_(tokens_) {}

  // Statements up to a block named in `ends`, whose name has been read then; up to the end of the template
  // without.
  Result<Body> parse_body(std::initializer_list<std::string_view> ends);

 private:
  Result<StatementPtr> parse_statement();
  Status parse_if(Statement& statement);
  Status parse_for(Statement& statement);
  Status parse_set(Statement& statement);
  Status parse_macro(Statement& statement);
  Status parse_call(Statement& statement);
  Status parse_filter(Statement& statement);
  Status parse_with(Statement& statement);
  Status parse_targets(Statement& statement);
  Status parse_parameters(Statement& statement);
  Status parse_filter_chain(Statement& statement);
  Status parse_block_body(Statement& statement, std::string_view end);
  Status end_block();

  TokenStream tokens_;
  ExpressionParser expressions_;
  std::string end_;  // the name that ended the last body
  int nesting_ = 0, loops_ = 0;
};

Status StatementParser::end_block() {
  if (!tokens_.is(TokenKind::kBlockEnd)) return tokens_.unexpected("'%}'");
  tokens_.next();
  return {};
}

Result<Body> StatementParser::parse_body(std::initializer_list<std::string_view> ends) {
  if (++nesting_ > kNestingMax) return syntax_error(tokens_.line(), "blocks are nested too deeply");
  Body body;
  const int line = tokens_.line();
  for (;;) {
    if (tokens_.is(TokenKind::kEnd)) {
      if (ends.size() > 0) {
        return syntax_error(line, "block is not closed: missing '" + std::string(*(ends.end() - 1)) + "'");
      }
      break;
    }
    if (tokens_.is(TokenKind::kBlockBegin) && tokens_.peek(1).kind == TokenKind::kName) {
      const std::string& name = tokens_.peek(1).text;
      if (std::find(ends.begin(), ends.end(), name) != ends.end()) {
        end_ = name;
        tokens_.next();
        tokens_.next();
        break;
      }
    }
    ASSIGN_OR_RETURN(StatementPtr statement, parse_statement());
    body.push_back(std::move(statement));
  }
  --nesting_;
  return body;
}

Result<StatementPtr> StatementParser::parse_statement() {
  Statement statement;
  statement.line = tokens_.line();
  if (tokens_.is(TokenKind::kText)) {
    statement.text = Value::string(tokens_.next().text, Origin::kTemplate);
    return std::make_unique<const Statement>(std::move(statement));
  }
  const bool is_output = tokens_.is(TokenKind::kVariableBegin);
  tokens_.next();
  if (is_output) {
    statement.kind = StatementKind::kOutput;
    ASSIGN_OR_RETURN(statement.expression, expressions_.parse_tuple());
    if (!tokens_.is(TokenKind::kVariableEnd)) return tokens_.unexpected("'}}'");
    tokens_.next();
    return std::make_unique<const Statement>(std::move(statement));
  }
  struct Known {
    std::string_view name;
    Status (StatementParser::*parse)(Statement&);
  };
  static constexpr Known kKnown[] = {
      {"if", &StatementParser::parse_if},     {"for", &StatementParser::parse_for},
      {"set", &StatementParser::parse_set},   {"macro", &StatementParser::parse_macro},
      {"call", &StatementParser::parse_call}, {"filter", &StatementParser::parse_filter},
      {"with", &StatementParser::parse_with},
  };
  ASSIGN_OR_RETURN(const std::string name, tokens_.expect_name());
  if (name == "break" || name == "continue") {
    if (loops_ == 0) return syntax_error(statement.line, "'" + name + "' outside a loop");
    statement.kind = name == "break" ? StatementKind::kBreak : StatementKind::kContinue;
    RETURN_IF_ERROR(end_block());
  } else if (name == "generation") {
    statement.kind = StatementKind::kGeneration;
    RETURN_IF_ERROR(end_block());
    RETURN_IF_ERROR(parse_block_body(statement, "endgeneration"));
  } else {
    const auto known = std::find_if(std::begin(kKnown), std::end(kKnown),
                                    [&](const Known& entry) { return entry.name == name; });
    if (known == std::end(kKnown))
      return syntax_error(statement.line, "block '" + name + "' is not supported");
    RETURN_IF_ERROR((this->*known->parse)(statement));
  }
  return std::make_unique<const Statement>(std::move(statement));
}

Status StatementParser::parse_block_body(Statement& statement, std::string_view end) {
  ASSIGN_OR_RETURN(statement.body, parse_body({end}));
  return end_block();
}

Status StatementParser::parse_if(Statement& statement) {
  statement.kind = StatementKind::kIf;
  end_ = "elif";
  while (end_ == "elif") {
    ASSIGN_OR_RETURN(ExpressionPtr condition, expressions_.parse_tuple(false));
    RETURN_IF_ERROR(end_block());
    ASSIGN_OR_RETURN(Body body, parse_body({"elif", "else", "endif"}));
    statement.branches.emplace_back(std::move(condition), std::move(body));
  }
  if (end_ == "else") {
    RETURN_IF_ERROR(end_block());
    ASSIGN_OR_RETURN(statement.otherwise, parse_body({"endif"}));
  }
  return end_block();
}

// a  |  a, b  |  (a, b)
Status StatementParser::parse_targets(Statement& statement) {
  const bool parenthesized = tokens_.skip_operator("(");
  do {
    if (!statement.targets.empty() && !tokens_.is(TokenKind::kName)) break;
    ASSIGN_OR_RETURN(std::string name, tokens_.expect_name());
    statement.targets.push_back(std::move(name));
  } while (tokens_.skip_operator(","));
  return parenthesized ? tokens_.expect_operator(")") : Status();
}

Status StatementParser::parse_for(Statement& statement) {
  statement.kind = StatementKind::kFor;
  RETURN_IF_ERROR(parse_targets(statement));
  if (!tokens_.skip_name("in")) return tokens_.unexpected("'in'");
  ASSIGN_OR_RETURN(statement.expression, expressions_.parse_tuple(false));
  if (tokens_.skip_name("if")) {
    ASSIGN_OR_RETURN(statement.condition, expressions_.parse());
  }
  statement.recursive = tokens_.skip_name("recursive");
  RETURN_IF_ERROR(end_block());
  ++loops_;
  ASSIGN_OR_RETURN(statement.body, parse_body({"else", "endfor"}));
  --loops_;
  if (end_ == "else") {
    RETURN_IF_ERROR(end_block());
    ASSIGN_OR_RETURN(statement.otherwise, parse_body({"endfor"}));
  }
  return end_block();
}

Status StatementParser::parse_filter_chain(Statement& statement) {
  do {
    ASSIGN_OR_RETURN(ExpressionPtr filter, expressions_.parse_filter(nullptr));
    statement.filters.push_back(std::move(filter));
  } while (tokens_.skip_operator("|"));
  return {};
}

Status StatementParser::parse_set(Statement& statement) {
  statement.kind = StatementKind::kSet;
  if (tokens_.is_operator(".", 1)) {
    ASSIGN_OR_RETURN(std::string name, tokens_.expect_name());
    statement.targets.push_back(std::move(name));
    tokens_.next();
    ASSIGN_OR_RETURN(statement.attribute, tokens_.expect_name());
  } else {
    RETURN_IF_ERROR(parse_targets(statement));
  }
  if (tokens_.skip_operator("=")) {
    ASSIGN_OR_RETURN(statement.expression, expressions_.parse_tuple());
    return end_block();
  }
  statement.kind = StatementKind::kSetBlock;
  if (statement.targets.size() != 1) return tokens_.unexpected("'='");
  if (tokens_.skip_operator("|")) RETURN_IF_ERROR(parse_filter_chain(statement));
  RETURN_IF_ERROR(end_block());
  return parse_block_body(statement, "endset");
}

// (a, b=1)
Status StatementParser::parse_parameters(Statement& statement) {
  RETURN_IF_ERROR(tokens_.expect_operator("("));
  while (!tokens_.is_operator(")")) {
    if (!statement.targets.empty()) RETURN_IF_ERROR(tokens_.expect_operator(","));
    ASSIGN_OR_RETURN(std::string name, tokens_.expect_name());
    statement.targets.push_back(std::move(name));
    ExpressionPtr otherwise;
    if (tokens_.skip_operator("=")) {
      ASSIGN_OR_RETURN(otherwise, expressions_.parse());
    } else if (!statement.defaults.empty() && statement.defaults.back() != nullptr) {
      return syntax_error(tokens_.line(), "parameter without a default after one with a default");
    }
    statement.defaults.push_back(std::move(otherwise));
  }
  tokens_.next();
  return {};
}

Status StatementParser::parse_macro(Statement& statement) {
  statement.kind = StatementKind::kMacro;
  ASSIGN_OR_RETURN(statement.name, tokens_.expect_name());
  RETURN_IF_ERROR(parse_parameters(statement));
  RETURN_IF_ERROR(end_block());
  const int loops = std::exchange(loops_, 0);  // a break in here belongs to no loop outside
  const Status status = parse_block_body(statement, "endmacro");
  loops_ = loops;
  return status;
}

Status StatementParser::parse_call(Statement& statement) {
  statement.kind = StatementKind::kCallBlock;
  if (tokens_.is_operator("(")) RETURN_IF_ERROR(parse_parameters(statement));
  const int line = tokens_.line();
  ASSIGN_OR_RETURN(statement.expression, expressions_.parse());
  if (statement.expression->kind != ExpressionKind::kCall) return syntax_error(line, "'call' needs a call");
  RETURN_IF_ERROR(end_block());
  const int loops = std::exchange(loops_, 0);
  const Status status = parse_block_body(statement, "endcall");
  loops_ = loops;
  return status;
}

Status StatementParser::parse_filter(Statement& statement) {
  statement.kind = StatementKind::kFilter;
  RETURN_IF_ERROR(parse_filter_chain(statement));
  RETURN_IF_ERROR(end_block());
  return parse_block_body(statement, "endfilter");
}

Status StatementParser::parse_with(Statement& statement) {
  statement.kind = StatementKind::kWith;
  while (tokens_.is(TokenKind::kName)) {
    statement.targets.push_back(tokens_.next().text);
    RETURN_IF_ERROR(tokens_.expect_operator("="));
    ASSIGN_OR_RETURN(ExpressionPtr value, expressions_.parse());
    statement.defaults.push_back(std::move(value));
    if (!tokens_.skip_operator(",")) break;
  }
  RETURN_IF_ERROR(end_block());
  return parse_block_body(statement, "endwith");
}

}  // namespace

Result<std::shared_ptr<const Template>> parse_template(std::string_view source) {
  if (!is_valid_utf8(source)) return fail(Error::kInvalidArgument, "the template is not UTF-8");
  ASSIGN_OR_RETURN(std::vector<Token> tokens, tokenize_template(source));
  StatementParser parser(std::move(tokens));
  ASSIGN_OR_RETURN(Body body, parser.parse_body({}));
  return std::make_shared<const Template>(Template{std::move(body)});
}

}  // namespace penstock::jinja
