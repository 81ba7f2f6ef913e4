// Python's view of strings: white space, escapes, quoting, numbers as text. Pure functions over UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace penstock::jinja {

// str.lstrip(), str.rstrip(): Unicode white space.
std::string_view left_trimmed(std::string_view text);
std::string_view right_trimmed(std::string_view text);

// The inside of a string literal to its value: \n, \x41, \u00e9, \U0001f600, \101; unknown escapes stay.
Result<std::string> unescape(std::string_view literal);

// repr(): 'text', or "text" where that saves escapes.
std::string quote_python(std::string_view text);
// As json.dumps writes a string.
std::string quote_json(std::string_view text, bool ascii_only);
// repr() of a float: the shortest text that reads back, 2.0, 1e+16, inf, nan.
std::string format_float(double value);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string casefold(std::string_view text);     // lower case, sharp s as "ss"
std::string capitalize(std::string_view text);   // first character upper, the rest lower
std::string title_words(std::string_view text);  // str.title(): every run of letters capitalised

}  // namespace penstock::jinja
