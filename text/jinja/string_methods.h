// Methods of str, shared with the filters that do the same.
#pragma once

#include <string_view>

#include "base/result.h"
#include "text/jinja/runtime.h"

namespace penstock::jinja {

using MethodFunction = Result<Value> (*)(Run&, const Value& self, const Arguments&);

// Null where str has no such method.
MethodFunction find_string_method(std::string_view name);

enum class Side : uint8_t { kLeft, kRight, kBoth };
// strip(): white space, or the characters of `characters` where it is not null.
Result<Value> strip(Run& run, const StringData& data, Side side, const std::string* characters);
// replace(): at most `count` times, everywhere when negative.
Result<Value> replace(Run& run, const StringData& data, const StringData& from, const StringData& to,
                      int64_t count);
// A text made from `source` by a mapping of its characters: the template's own only if `source` is.
Result<Value> mapped(Run& run, const StringData& source, std::string text);

}  // namespace penstock::jinja
