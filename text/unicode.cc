#include "text/unicode.h"

#include <algorithm>
#include <clocale>
#include <cwctype>

namespace penstock {
namespace {

// Made once and never freed: a table of the C library, the same for everybody.
locale_t unicode_locale() {
  static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  return locale;
}

// Characters whose upper case is several, from the SpecialCasing table of Unicode (those without conditions).
struct Expansion {
  uint32_t from;
  std::string_view to;
};
constexpr Expansion kUpperExpansions[] = {{0xDF, "SS"},
                                          {0x149, "\u02BCN"},
                                          {0x1F0, "J\u030C"},
                                          {0x390, "\u0399\u0308\u0301"},
                                          {0x3B0, "\u03A5\u0308\u0301"},
                                          {0x587, "\u0535\u0552"},
                                          {0x1E96, "H\u0331"},
                                          {0x1E97, "T\u0308"},
                                          {0x1E98, "W\u030A"},
                                          {0x1E99, "Y\u030A"},
                                          {0x1E9A, "A\u02BE"},
                                          {0x1F50, "\u03A5\u0313"},
                                          {0x1F52, "\u03A5\u0313\u0300"},
                                          {0x1F54, "\u03A5\u0313\u0301"},
                                          {0x1F56, "\u03A5\u0313\u0342"},
                                          {0x1F80, "\u1F08\u0399"},
                                          {0x1F81, "\u1F09\u0399"},
                                          {0x1F82, "\u1F0A\u0399"},
                                          {0x1F83, "\u1F0B\u0399"},
                                          {0x1F84, "\u1F0C\u0399"},
                                          {0x1F85, "\u1F0D\u0399"},
                                          {0x1F86, "\u1F0E\u0399"},
                                          {0x1F87, "\u1F0F\u0399"},
                                          {0x1F88, "\u1F08\u0399"},
                                          {0x1F89, "\u1F09\u0399"},
                                          {0x1F8A, "\u1F0A\u0399"},
                                          {0x1F8B, "\u1F0B\u0399"},
                                          {0x1F8C, "\u1F0C\u0399"},
                                          {0x1F8D, "\u1F0D\u0399"},
                                          {0x1F8E, "\u1F0E\u0399"},
                                          {0x1F8F, "\u1F0F\u0399"},
                                          {0x1F90, "\u1F28\u0399"},
                                          {0x1F91, "\u1F29\u0399"},
                                          {0x1F92, "\u1F2A\u0399"},
                                          {0x1F93, "\u1F2B\u0399"},
                                          {0x1F94, "\u1F2C\u0399"},
                                          {0x1F95, "\u1F2D\u0399"},
                                          {0x1F96, "\u1F2E\u0399"},
                                          {0x1F97, "\u1F2F\u0399"},
                                          {0x1F98, "\u1F28\u0399"},
                                          {0x1F99, "\u1F29\u0399"},
                                          {0x1F9A, "\u1F2A\u0399"},
                                          {0x1F9B, "\u1F2B\u0399"},
                                          {0x1F9C, "\u1F2C\u0399"},
                                          {0x1F9D, "\u1F2D\u0399"},
                                          {0x1F9E, "\u1F2E\u0399"},
                                          {0x1F9F, "\u1F2F\u0399"},
                                          {0x1FA0, "\u1F68\u0399"},
                                          {0x1FA1, "\u1F69\u0399"},
                                          {0x1FA2, "\u1F6A\u0399"},
                                          {0x1FA3, "\u1F6B\u0399"},
                                          {0x1FA4, "\u1F6C\u0399"},
                                          {0x1FA5, "\u1F6D\u0399"},
                                          {0x1FA6, "\u1F6E\u0399"},
                                          {0x1FA7, "\u1F6F\u0399"},
                                          {0x1FA8, "\u1F68\u0399"},
                                          {0x1FA9, "\u1F69\u0399"},
                                          {0x1FAA, "\u1F6A\u0399"},
                                          {0x1FAB, "\u1F6B\u0399"},
                                          {0x1FAC, "\u1F6C\u0399"},
                                          {0x1FAD, "\u1F6D\u0399"},
                                          {0x1FAE, "\u1F6E\u0399"},
                                          {0x1FAF, "\u1F6F\u0399"},
                                          {0x1FB2, "\u1FBA\u0399"},
                                          {0x1FB3, "\u0391\u0399"},
                                          {0x1FB4, "\u0386\u0399"},
                                          {0x1FB6, "\u0391\u0342"},
                                          {0x1FB7, "\u0391\u0342\u0399"},
                                          {0x1FBC, "\u0391\u0399"},
                                          {0x1FC2, "\u1FCA\u0399"},
                                          {0x1FC3, "\u0397\u0399"},
                                          {0x1FC4, "\u0389\u0399"},
                                          {0x1FC6, "\u0397\u0342"},
                                          {0x1FC7, "\u0397\u0342\u0399"},
                                          {0x1FCC, "\u0397\u0399"},
                                          {0x1FD2, "\u0399\u0308\u0300"},
                                          {0x1FD3, "\u0399\u0308\u0301"},
                                          {0x1FD6, "\u0399\u0342"},
                                          {0x1FD7, "\u0399\u0308\u0342"},
                                          {0x1FE2, "\u03A5\u0308\u0300"},
                                          {0x1FE3, "\u03A5\u0308\u0301"},
                                          {0x1FE4, "\u03A1\u0313"},
                                          {0x1FE6, "\u03A5\u0342"},
                                          {0x1FE7, "\u03A5\u0308\u0342"},
                                          {0x1FF2, "\u1FFA\u0399"},
                                          {0x1FF3, "\u03A9\u0399"},
                                          {0x1FF4, "\u038F\u0399"},
                                          {0x1FF6, "\u03A9\u0342"},
                                          {0x1FF7, "\u03A9\u0342\u0399"},
                                          {0x1FFC, "\u03A9\u0399"},
                                          {0xFB00, "FF"},
                                          {0xFB01, "FI"},
                                          {0xFB02, "FL"},
                                          {0xFB03, "FFI"},
                                          {0xFB04, "FFL"},
                                          {0xFB05, "ST"},
                                          {0xFB06, "ST"},
                                          {0xFB13, "\u0544\u0546"},
                                          {0xFB14, "\u0544\u0535"},
                                          {0xFB15, "\u0544\u053B"},
                                          {0xFB16, "\u054E\u0546"},
                                          {0xFB17, "\u0544\u053D"}};

}  // namespace

bool is_white_space(uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_python_space(uint32_t c) { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); }

bool is_alphanumeric(uint32_t c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  const locale_t locale = unicode_locale();
  return locale != locale_t{} && iswalnum_l(static_cast<wint_t>(c), locale) != 0;
}

bool is_word_character(uint32_t c) {
  if (is_alphanumeric(c) || c == '_') return true;
  if (c < 0x80) return false;
  const bool joins = c == 0x200C || c == 0x200D || c == 0x203F || c == 0x2040 || c == 0x2054 || c == 0xFE33 ||
                     c == 0xFE34 || (c >= 0xFE4D && c <= 0xFE4F) || c == 0xFF3F;
  if (joins) return true;
  const locale_t locale = unicode_locale();
  static const wctype_t combining = locale != locale_t{} ? wctype_l("combining", locale) : wctype_t{};
  return combining != wctype_t{} && iswctype_l(static_cast<wint_t>(c), combining, locale) != 0;
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

std::string_view upper_expansion(uint32_t c) {
  const auto found = std::lower_bound(std::begin(kUpperExpansions), std::end(kUpperExpansions), c,
                                      [](const Expansion& entry, uint32_t key) { return entry.from < key; });
  return found != std::end(kUpperExpansions) && found->from == c ? found->to : std::string_view();
}

bool is_cased(uint32_t c) { return to_upper(c) != c || to_lower(c) != c; }

}  // namespace penstock
