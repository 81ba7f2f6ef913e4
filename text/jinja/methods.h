// Methods of str, list, tuple and dict: those that do not change the object. The others exist and refuse, as
// in Jinja's immutable sandbox.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "text/jinja/runtime.h"

namespace penstock::jinja {

bool has_method(const Value& object, std::string_view name);
// `object.name` as a value, to be called later.
Value bound_method(const Value& object, const std::string& name);
// has_method() must hold.
Result<Value> call_method(Run& run, const Value& object, std::string_view name, const Arguments& arguments);

}  // namespace penstock::jinja
