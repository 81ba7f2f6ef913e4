// Parser: tokens to a Template. Errors begin with "line N:".
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "text/jinja/ast.h"

namespace penstock::jinja {

// Statements known: if, for, set, macro, call, filter, with, break, continue, generation, raw. Others are
// refused by name; an unknown filter or test fails when it is reached.
Result<std::shared_ptr<const Template>> parse_template(std::string_view source);

}  // namespace penstock::jinja
