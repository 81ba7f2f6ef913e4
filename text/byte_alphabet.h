// The byte-level alphabet of GPT-2: every byte has a printable code point, so that vocabularies are text.
//
// Bytes that print in Latin-1 stand for themselves, the other 68 for U+0100 and up in order. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace penstock {

// A token as a vocabulary spells it ("Ġthe") to the bytes it means (" the"); nothing when a character is
// outside the alphabet.
std::optional<std::string> alphabet_to_bytes(std::string_view spelled);
std::string bytes_to_alphabet(std::string_view bytes);

}  // namespace penstock
