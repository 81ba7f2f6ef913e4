// Cursor over tokens, for the two parsers. Never runs past kEnd.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja/lexer.h"

namespace penstock::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  Token next() {
    const Token& token = peek();
    if (token.kind != TokenKind::kEnd) ++at_;
    return token;
  }
  int line() const { return peek().line; }
  bool is(TokenKind kind) const { return peek().kind == kind; }
  bool is_operator(std::string_view text, size_t ahead = 0) const {
    return peek(ahead).kind == TokenKind::kOperator && peek(ahead).text == text;
  }
  bool is_name(std::string_view text, size_t ahead = 0) const {
    return peek(ahead).kind == TokenKind::kName && peek(ahead).text == text;
  }
  bool skip_operator(std::string_view text) { return is_operator(text) && (next(), true); }
  bool skip_name(std::string_view text) { return is_name(text) && (next(), true); }

  Status expect_operator(std::string_view text) {
    if (skip_operator(text)) return {};
    return unexpected("'" + std::string(text) + "'");
  }
  Result<std::string> expect_name() {
    if (!is(TokenKind::kName)) return unexpected("a name");
    return next().text;
  }
  Failure unexpected(const std::string& wanted) const {
    return syntax_error(line(), "expected " + wanted + ", found '" + peek().text + "'");
  }

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace penstock::jinja
