#include "text/jinja/strings.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "text/unicode.h"
#include "text/utf8.h"

namespace penstock::jinja {
namespace {

size_t previous_character(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

template <typename Function>
void for_each_code_point(std::string_view text, const Function& function) {
  while (!text.empty()) {
    const Utf8Step step = decode_utf8(text);
    function(step.state == Utf8State::kWhole ? step.code_point : 0xFFFD, text.substr(0, step.length));
    text.remove_prefix(step.length);
  }
}

std::string hex(uint32_t value, int width) {
  std::array<char, 16> buffer;
  const int length = std::snprintf(buffer.data(), buffer.size(), "%0*x", width, value);
  return std::string(buffer.data(), static_cast<size_t>(length));
}

char simple_escape(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case '\\':
    case '\'':
    case '"':
      return c;
    default:
      return '\0';
  }
}

// The code point of \xHH, \uHHHH, \UHHHHHHHH at `at` (the letter); moves `at` behind it.
Result<uint32_t> hex_escape(std::string_view literal, size_t& at) {
  const size_t digits = literal[at] == 'x' ? 2 : literal[at] == 'u' ? 4 : 8;
  const std::string_view text = literal.substr(at + 1, digits);
  uint32_t code_point = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), code_point, 16);
  if (text.size() != digits || error != std::errc() || end != text.data() + digits || code_point > 0x10FFFF) {
    return fail(Error::kInvalidArgument,
                "bad escape '\\" + std::string(literal.substr(at, digits + 1)) + "'");
  }
  at += digits + 1;
  return code_point;
}

void append_upper(uint32_t c, std::string& out) {
  const std::string_view expansion = upper_expansion(c);
  expansion.empty() ? append_utf8(to_upper(c), out) : static_cast<void>(out.append(expansion));
}

// Sharp s begins a word as "Ss".
void append_title(uint32_t c, std::string& out) {
  const std::string_view expansion = upper_expansion(c);
  if (expansion.empty()) return append_utf8(to_upper(c), out);
  const size_t first = decode_utf8(expansion).length;
  out.append(expansion.substr(0, first)).append(lower(expansion.substr(first)));
}

// A character that repr() writes as an escape.
bool is_unprintable(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0xA0) || c == 0xAD || (is_white_space(c) && c != ' ') ||
         c == 0xFEFF || (c >= 0x200B && c <= 0x200F) || (c >= 0x202A && c <= 0x202E) ||
         (c >= 0x2060 && c <= 0x206F);
}

}  // namespace

std::string_view left_trimmed(std::string_view text) {
  while (!text.empty()) {
    const Utf8Step step = decode_utf8(text);
    if (step.state != Utf8State::kWhole || !is_python_space(step.code_point)) break;
    text.remove_prefix(step.length);
  }
  return text;
}

std::string_view right_trimmed(std::string_view text) {
  while (!text.empty()) {
    const size_t at = previous_character(text, text.size());
    const Utf8Step step = decode_utf8(text.substr(at));
    if (step.state != Utf8State::kWhole || !is_python_space(step.code_point)) break;
    text = text.substr(0, at);
  }
  return text;
}

Result<std::string> unescape(std::string_view literal) {
  std::string out;
  for (size_t at = 0; at < literal.size();) {
    const char c = literal[at];
    if (c != '\\' || at + 1 == literal.size()) {
      out.push_back(c);
      ++at;
      continue;
    }
    const char next = literal[++at];
    if (const char simple = simple_escape(next); simple != '\0') {
      out.push_back(simple);
      ++at;
    } else if (next == 'x' || next == 'u' || next == 'U') {
      ASSIGN_OR_RETURN(uint32_t code_point, hex_escape(literal, at));
      if (code_point >= 0xD800 && code_point < 0xE000) {
        return fail(Error::kInvalidArgument, "a surrogate is no character: \\u" + hex(code_point, 4));
      }
      append_utf8(code_point, out);
    } else if (next >= '0' && next <= '7') {
      uint32_t code_point = 0;
      for (int i = 0; i < 3 && at < literal.size() && literal[at] >= '0' && literal[at] <= '7'; ++i, ++at) {
        code_point = code_point * 8 + static_cast<uint32_t>(literal[at] - '0');
      }
      append_utf8(code_point, out);
    } else if (next == '\n') {
      ++at;  // a line continued
    } else {
      out.push_back('\\');
    }
  }
  return out;
}

std::string quote_python(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for_each_code_point(text, [&](uint32_t c, std::string_view bytes) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\\' || c == static_cast<uint32_t>(quote)) {
      out.push_back('\\');
      out.push_back(static_cast<char>(c));
    } else if (is_unprintable(c)) {
      out += c < 0x100 ? "\\x" + hex(c, 2) : "\\u" + hex(c, 4);
    } else {
      out += bytes;
    }
  });
  out.push_back(quote);
  return out;
}

std::string quote_json(std::string_view text, bool ascii_only) {
  std::string out("\"");
  for_each_code_point(text, [&](uint32_t c, std::string_view bytes) {
    switch (c) {
      case '"':
      case '\\':
        out.push_back('\\');
        out.push_back(static_cast<char>(c));
        return;
      case '\n':
        out += "\\n";
        return;
      case '\r':
        out += "\\r";
        return;
      case '\t':
        out += "\\t";
        return;
      case '\b':
        out += "\\b";
        return;
      case '\f':
        out += "\\f";
        return;
      default:
        break;
    }
    if (c >= 0x20 && !(ascii_only && c > 0x7E)) {
      out += bytes;
    } else if (c < 0x10000) {
      out += "\\u" + hex(c, 4);
    } else {
      out +=
          "\\u" + hex(0xD800 + ((c - 0x10000) >> 10), 4) + "\\u" + hex(0xDC00 + ((c - 0x10000) & 0x3FF), 4);
    }
  });
  out.push_back('"');
  return out;
}

std::string format_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer;
  const double magnitude = std::abs(value);
  const bool scientific = magnitude != 0 && (magnitude >= 1e16 || magnitude < 1e-4);
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 scientific ? std::chars_format::scientific : std::chars_format::fixed);
  std::string text(buffer.data(), end.ptr);
  if (!scientific && text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string upper(std::string_view text) {
  std::string out;
  for_each_code_point(text, [&](uint32_t c, std::string_view) { append_upper(c, out); });
  return out;
}

std::string lower(std::string_view text) {
  std::string out;
  for_each_code_point(text, [&](uint32_t c, std::string_view) { append_utf8(to_lower(c), out); });
  return out;
}

std::string casefold(std::string_view text) {
  std::string out;
  for_each_code_point(text, [&](uint32_t c, std::string_view) {
    const std::string_view expansion = upper_expansion(c);
    expansion.empty() ? append_utf8(to_lower(c), out) : static_cast<void>(out.append(lower(expansion)));
  });
  return out;
}

std::string capitalize(std::string_view text) {
  std::string out;
  for_each_code_point(text, [&](uint32_t c, std::string_view) {
    out.empty() ? append_title(c, out) : append_utf8(to_lower(c), out);
  });
  return out;
}

std::string title_words(std::string_view text) {
  std::string out;
  bool inside = false;
  for_each_code_point(text, [&](uint32_t c, std::string_view) {
    inside ? append_utf8(to_lower(c), out) : append_title(c, out);
    inside = is_cased(c);
  });
  return out;
}

}  // namespace penstock::jinja
