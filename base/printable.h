// Bytes from a file or from another process as one line of text.
//
// What somebody else wrote goes into logs and error messages: a line break in it must not forge a line, an
// escape sequence must not reach the terminal, and a log stays UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace penstock {

// Control characters and bytes that are no UTF-8 as \xNN, everything else as it is.
[[nodiscard]] std::string printable(std::string_view bytes);

}  // namespace penstock
