// Values as text: str() and repr() of Python, json.dumps.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "text/jinja/runtime.h"

namespace penstock::jinja {

// What {{ value }} prints. Strings keep their provenance; numbers, none and booleans count as the template's;
// what lists and dicts print counts as the request's.
Status append_printed(Run& run, const Value& value, TextBuilder& out);
// The same as a string value.
Result<Value> printed(Run& run, const Value& value);

struct JsonStyle {
  bool ascii_only = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // one level; nothing: all on one line
  std::string item_separator = ", ", key_separator = ": ";
};
// TypeError for what JSON has no word for.
Result<std::string> to_json(Run& run, const Value& value, const JsonStyle& style);

}  // namespace penstock::jinja
