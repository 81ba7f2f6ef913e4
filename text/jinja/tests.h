// Tests: `value is name(arguments)`.
#pragma once

#include <string_view>

#include "base/result.h"
#include "text/jinja/runtime.h"

namespace penstock::jinja {

using TestFunction = Result<bool> (*)(Run&, const Value& input, const Arguments&);

// Null where there is none.
TestFunction find_test(std::string_view name);

}  // namespace penstock::jinja
