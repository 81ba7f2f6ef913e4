#include "text/unicode.h"

#include <clocale>
#include <cwctype>

namespace penstock {
namespace {

// Made once and never freed: a table of the C library, the same for everybody.
locale_t unicode_locale() {
  static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  return locale;
}

}  // namespace

bool is_white_space(uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_python_space(uint32_t c) { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); }

bool is_word_character(uint32_t c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  const locale_t locale = unicode_locale();
  return locale != locale_t{} && iswalnum_l(static_cast<wint_t>(c), locale) != 0;
}

uint32_t to_upper(uint32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z' ? c - 32 : c;
  const locale_t locale = unicode_locale();
  return locale != locale_t{} ? static_cast<uint32_t>(towupper_l(static_cast<wint_t>(c), locale)) : c;
}

uint32_t to_lower(uint32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  const locale_t locale = unicode_locale();
  return locale != locale_t{} ? static_cast<uint32_t>(towlower_l(static_cast<wint_t>(c), locale)) : c;
}

bool is_cased(uint32_t c) { return to_upper(c) != c || to_lower(c) != c; }

}  // namespace penstock
