#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>

#include "text/jinja/strings.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace penstock::jinja {
namespace {

constexpr std::array<std::string_view, 24> kOperators = {"**", "//", "==", "!=", "<=", ">=", "+", "-",
                                                         "*",  "/",  "%",  "~",  "<",  ">",  "=", "(",
                                                         ")",  "[",  "]",  "{",  "}",  ".",  ":", ","};

// \r\n and \r become \n; one newline at the very end is dropped.
std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out.push_back(source[i]);
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize_newlines(source)) {}
  Result<std::vector<Token>> run();

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool starts_with(std::string_view text) const { return rest().substr(0, text.size()) == text; }
  void push(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void advance(size_t bytes);
  void skip_space();

  void push_text(size_t end, bool is_variable, char sign);
  Status lex_tag(size_t begin);
  Status skip_comment();
  Result<bool> lex_raw();
  Status lex_code(std::string_view end, TokenKind end_kind);
  bool take_end(std::string_view end, TokenKind kind);
  Status lex_token();
  Status lex_string(char quote);
  void lex_number();

  const std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // what was read last ended with a newline
  std::vector<char> open_;     // brackets of the expression being read
  std::vector<Token> tokens_;
};

void Lexer::advance(size_t bytes) {
  line_ += static_cast<int>(std::count(source_.begin() + at_, source_.begin() + at_ + bytes, '\n'));
  at_ += bytes;
}

void Lexer::skip_space() { advance(rest().size() - left_trimmed(rest()).size()); }

Result<std::vector<Token>> Lexer::run() {
  while (at_ < source_.size()) {
    size_t begin = at_;
    for (;; ++begin) {
      begin = source_.find('{', begin);
      if (begin == std::string::npos || begin + 1 >= source_.size()) {
        begin = std::string::npos;
        break;
      }
      const char next = source_[begin + 1];
      if (next == '{' || next == '%' || next == '#') break;
    }
    if (begin == std::string::npos) {
      push(TokenKind::kText, std::string(rest()));
      advance(rest().size());
      break;
    }
    RETURN_IF_ERROR(lex_tag(begin));
  }
  push(TokenKind::kEnd, "end of template");
  return std::move(tokens_);
}

// Text up to `end`, where a tag begins: `-` strips all white space before the tag; else a block or comment
// that is the first on its line loses the indentation, unless `+` says no.
void Lexer::push_text(size_t end, bool is_variable, char sign) {
  std::string_view text = std::string_view(source_).substr(at_, end - at_);
  if (sign == '-') {
    text = right_trimmed(text);
  } else if (sign != '+' && !is_variable) {
    const size_t newline = text.rfind('\n');
    const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
    if ((line_begin > 0 || line_starting_) && left_trimmed(text.substr(line_begin)).empty()) {
      text = text.substr(0, line_begin);
    }
  }
  if (!text.empty()) push(TokenKind::kText, std::string(text));
  advance(end - at_);
}

Status Lexer::lex_tag(size_t begin) {
  const char type = source_[begin + 1];
  const char sign = begin + 2 < source_.size() ? source_[begin + 2] : '\0';
  push_text(begin, type == '{', sign);
  if (type == '#') return skip_comment();
  if (type == '%') {
    ASSIGN_OR_RETURN(const bool raw, lex_raw());
    if (raw) return {};
  }
  push(type == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, source_.substr(at_, 2));
  advance(sign == '-' || sign == '+' ? 3 : 2);
  return type == '{' ? lex_code("}}", TokenKind::kVariableEnd) : lex_code("%}", TokenKind::kBlockEnd);
}

Status Lexer::skip_comment() {
  const int line = line_;
  const size_t end = source_.find("#}", at_ + 2);
  if (end == std::string::npos) return syntax_error(line, "comment is not closed: missing '#}'");
  const char sign = end > at_ + 2 ? source_[end - 1] : '\0';
  advance(end + 2 - at_);
  line_starting_ = false;
  if (sign == '-') {
    skip_space();
    line_starting_ = source_[at_ - 1] == '\n';
  } else if (sign != '+' && starts_with("\n")) {
    advance(1);
    line_starting_ = true;
  }
  return {};
}

// {% raw %} ... {% endraw %}: text as it stands. False when the block at this place is another one.
Result<bool> Lexer::lex_raw() {
  const size_t begin = at_;
  const auto tag_length = [this](size_t from, std::string_view word) -> size_t {
    std::string_view text = std::string_view(source_).substr(from);
    const size_t all = text.size();
    text.remove_prefix(2);
    if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
    text = left_trimmed(text);
    if (text.substr(0, word.size()) != word) return 0;
    text = left_trimmed(text.substr(word.size()));
    if (text.substr(0, 3) == "-%}") return all - left_trimmed(text.substr(3)).size();
    if (text.substr(0, 2) != "%}" && text.substr(0, 3) != "+%}") return 0;
    return all - text.size() + (text[0] == '+' ? 3 : 2);
  };
  const size_t opening = tag_length(begin, "raw");
  if (opening == 0 || source_.substr(begin + opening - 3, 3) == "+%}")
    return false;  // no {% raw +%} in Jinja
  const int line = line_;
  advance(opening);
  line_starting_ = false;
  for (size_t end = source_.find("{%", at_); end != std::string::npos; end = source_.find("{%", end + 2)) {
    const size_t closing = tag_length(end, "endraw");
    if (closing == 0) continue;
    push_text(end, false, source_[end + 2]);
    advance(closing);
    const bool trims = source_[at_ - 1] == '}' && source_[at_ - 3] != '+' && source_[at_ - 3] != '-';
    if (trims && starts_with("\n")) advance(1);
    line_starting_ = source_[at_ - 1] == '\n';
    return true;
  }
  return syntax_error(line, "'raw' is not closed: missing 'endraw'");
}

// The end of a tag, if it stands here: `-` eats the white space that follows, a block also one newline.
bool Lexer::take_end(std::string_view end, TokenKind kind) {
  const bool sign = starts_with("-") || starts_with("+");
  const bool minus = starts_with("-");
  if (rest().substr(sign ? 1 : 0, 2) != end) return false;
  if (sign && !minus && kind == TokenKind::kVariableEnd) return false;
  push(kind, std::string(end));
  advance(sign ? 3 : 2);
  if (minus) {
    skip_space();
  } else if (!sign && kind == TokenKind::kBlockEnd && starts_with("\n")) {
    advance(1);
  }
  line_starting_ = source_[at_ - 1] == '\n';
  return true;
}

Status Lexer::lex_code(std::string_view end, TokenKind end_kind) {
  const int line = line_;
  open_.clear();
  for (;;) {
    skip_space();
    if (at_ >= source_.size())
      return syntax_error(line, "tag is not closed: missing '" + std::string(end) + "'");
    if (open_.empty() && take_end(end, end_kind)) return {};
    RETURN_IF_ERROR(lex_token());
  }
}

Status Lexer::lex_token() {
  const char c = source_[at_];
  if (c == '"' || c == '\'') return lex_string(c);
  if (is_digit(c)) return lex_number(), Status();
  size_t length = 0;
  for (std::string_view text = rest(); !text.empty();) {
    const Utf8Step step = decode_utf8(text);
    if (!is_alphanumeric(step.code_point) && step.code_point != '_') break;
    length += step.length;
    text.remove_prefix(step.length);
  }
  if (length > 0) {
    push(TokenKind::kName, source_.substr(at_, length));
    advance(length);
    return {};
  }
  if (c == '|') {
    push(TokenKind::kOperator, "|");
    advance(1);
    return {};
  }
  for (const std::string_view op : kOperators) {
    if (!starts_with(op)) continue;
    if (op == "(" || op == "[" || op == "{") open_.push_back(op[0]);
    if (op == ")" || op == "]" || op == "}") {
      const char opening = op == ")" ? '(' : op == "]" ? '[' : '{';
      if (open_.empty() || open_.back() != opening)
        return syntax_error(line_, "unexpected '" + std::string(op) + "'");
      open_.pop_back();
    }
    push(TokenKind::kOperator, std::string(op));
    advance(op.size());
    return {};
  }
  return syntax_error(line_,
                      "unexpected character '" + source_.substr(at_, decode_utf8(rest()).length) + "'");
}

Status Lexer::lex_string(char quote) {
  size_t end = at_ + 1;
  while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
  if (end >= source_.size()) return syntax_error(line_, "string is not closed");
  auto value = unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1));
  if (!value.ok()) return syntax_error(line_, value.message());
  push(TokenKind::kString, std::move(*value));
  advance(end + 1 - at_);
  return {};
}

// 12, 1_000, 1.5, 1e20, 2.5e-3. A dot needs a digit after it: `x[1].y`.
void Lexer::lex_number() {
  size_t end = at_;
  const auto digits = [&] {
    while (end < source_.size() &&
           (is_digit(source_[end]) ||
            (source_[end] == '_' && end + 1 < source_.size() && is_digit(source_[end + 1])))) {
      ++end;
    }
  };
  const auto digit_at = [&](size_t i) { return i < source_.size() && is_digit(source_[i]); };
  digits();
  bool is_float = false;
  if (end < source_.size() && source_[end] == '.' && digit_at(end + 1)) {
    is_float = true;
    ++end;
    digits();
  }
  if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
    const bool sign = end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-');
    if (digit_at(end + (sign ? 2 : 1))) {
      is_float = true;
      end += sign ? 2 : 1;
      digits();
    }
  }
  std::string text = source_.substr(at_, end - at_);
  std::erase(text, '_');
  push(is_float ? TokenKind::kFloat : TokenKind::kInteger, std::move(text));
  advance(end - at_);
}

}  // namespace

Result<std::vector<Token>> tokenize_template(std::string_view source) { return Lexer(source).run(); }

Failure syntax_error(int line, const std::string& message) {
  return fail(Error::kInvalidArgument, "line " + std::to_string(line) + ": " + message);
}

}  // namespace penstock::jinja
