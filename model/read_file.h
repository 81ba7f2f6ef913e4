// Whole small files as strings. Private to the room.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace penstock {

// kNotFound when there is no such file, kInvalidArgument when it is larger than bytes_max.
[[nodiscard]] Result<std::string> read_file(const std::string& path, int64_t bytes_max);
// Creates or replaces; flushed to disk on return.
[[nodiscard]] Status write_file(const std::string& path, std::string_view content);

}  // namespace penstock
