// The few questions about code points that tokenizers and templates ask. Pure functions.
//
// Case mapping is one code point to one, from the C library's UTF-8 locale; ASCII alone where that locale is
// missing. What has several code points in upper case (German sharp s) is told by upper_expansion().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock {

bool is_white_space(uint32_t code_point);     // Unicode White_Space
bool is_python_space(uint32_t code_point);    // str.isspace: White_Space and U+001C to U+001F
bool is_alphanumeric(uint32_t code_point);    // letters and digits, with the marks that belong to letters
bool is_word_character(uint32_t code_point);  // \w of Unicode: also marks, connectors, joiners

uint32_t to_upper(uint32_t code_point);
std::string_view upper_expansion(uint32_t code_point);  // "SS" for U+00DF; empty for most
uint32_t to_lower(uint32_t code_point);
bool is_cased(uint32_t code_point);

}  // namespace penstock
