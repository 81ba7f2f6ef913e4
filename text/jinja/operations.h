// What Python's operators do to values. Failures are TypeError, ZeroDivisionError ... or a limit.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace penstock::jinja {

std::string_view type_name(const Value& value);  // "str", "int", "NoneType" ...
bool truthy(const Value& value);
inline bool is_tuple(const Value& value) {
  return value.is(ValueKind::kList) && value.as_list().kind == ListKind::kTuple;
}
// A list or tuple: what Python can index, compare and add.
inline bool is_indexed(const Value& value) {
  return value.is(ValueKind::kList) && value.as_list().kind <= ListKind::kTuple;
}

Result<bool> equal(Run& run, const Value& a, const Value& b);
// Below 0, 0, above 0; TypeError where Python cannot order the two.
Result<int> compare(Run& run, const Value& a, const Value& b);
// TypeError for what cannot be a key. Charges what the hash of the key will need.
Status check_hashable(Run& run, const Value& key);
// The value of `key` in a dict, or null.
Result<const Value*> look_up(Run& run, const Dict& dict, const Value& key);
Result<bool> contains(Run& run, const Value& container, const Value& item);
// `operation` is ==, !=, <, <=, >, >=, in, not in.
Result<bool> test_comparison(Run& run, std::string_view operation, const Value& a, const Value& b);

// `operation` is + - * / // % **.
Result<Value> arithmetic(Run& run, std::string_view operation, const Value& a, const Value& b);
Result<Value> negate(Run& run, const Value& value);

// a.name: a method of the type, then an item. a[key]: an item, then a method. Undefined where there is
// neither.
Result<Value> get_attribute(Run& run, const Value& object, const std::string& name);
Result<Value> get_item(Run& run, const Value& object, const Value& key);
// "a.b.0", as the `attribute` arguments of filters have it.
Result<Value> get_path(Run& run, const Value& object, const Value& path);
// a[start:stop:step]; none stands for a bound left out.
Result<Value> slice(Run& run, const Value& object, const Value& start, const Value& stop, const Value& step);

// The items that a loop sees: list items, dict keys, characters; none for undefined.
Result<std::vector<Value>> iterate(Run& run, const Value& value);
// Byte offsets at which the characters of valid UTF-8 begin, and its size.
std::vector<size_t> character_offsets(std::string_view text);

}  // namespace penstock::jinja
