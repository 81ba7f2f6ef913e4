// Filters: `value | name(arguments)`.
#pragma once

#include <string_view>

#include "base/result.h"
#include "text/jinja/runtime.h"

namespace penstock::jinja {

using FilterFunction = Result<Value> (*)(Run&, const Value& input, const Arguments&);

// Null where there is none. find_filter covers all; the others are its parts.
FilterFunction find_filter(std::string_view name);
FilterFunction find_text_filter(std::string_view name);
FilterFunction find_list_filter(std::string_view name);

}  // namespace penstock::jinja
