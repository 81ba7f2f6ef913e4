// Loader of tokenizer parts from a tokenizer.json. Private to text/.
//
// Pure functions, but for read_text_file. Errors name the field.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "text/tokenizer.h"
#include "text/tokenizer_model.h"

namespace penstock {

Result<TokenizerParts> parts_from_tokenizer_json(std::string_view json);

// The whole file; kNotFound or kIo with its path. Files above 1 GiB are refused.
Result<std::string> read_text_file(const std::string& path);

}  // namespace penstock
