// UTF-8: decoding by maximal ill-formed parts, as the Unicode standard recommends (chapter 3, table 3-8) and
// as Python, Rust and browsers do.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8State : uint8_t {
  kWhole,       // a code point
  kIllFormed,   // a maximal part that no following byte could complete
  kIncomplete,  // the text ends inside what may yet become a code point
};

struct Utf8Step {
  uint32_t code_point = 0;  // of kWhole only
  uint8_t length = 0;       // bytes, at least 1
  Utf8State state = Utf8State::kWhole;
};

// `text` must not be empty.
Utf8Step decode_utf8(std::string_view text);

bool is_valid_utf8(std::string_view text);
void append_utf8(uint32_t code_point, std::string& out);
// Appends `text`, every ill-formed or incomplete part as one U+FFFD.
void append_repaired_utf8(std::string_view text, std::string& out);
// Number of code points of valid text.
size_t count_code_points(std::string_view text);

}  // namespace penstock
