// The known name nearest to one that is not known: what "did you mean" says. Pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace penstock {

// Levenshtein distance: insertions, deletions and substitutions of one character.
[[nodiscard]] size_t edit_distance(std::string_view a, std::string_view b);

// The first of the nearest names; empty when there are none.
[[nodiscard]] std::string_view nearest_name(std::string_view name, std::span<const std::string> known);

}  // namespace penstock
