// Lexer: template source to tokens. White space control happens here, as with trim_blocks and lstrip_blocks
// on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace penstock::jinja {

enum class TokenKind : uint8_t {
  kText,           // text between tags
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kName,
  kString,  // text is the string's value
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  int line = 0;
};

// The last token is kEnd. Errors begin with the line. `source` is valid UTF-8.
Result<std::vector<Token>> tokenize_template(std::string_view source);

// "line N: message", as every syntax error reads.
Failure syntax_error(int line, const std::string& message);

}  // namespace penstock::jinja
