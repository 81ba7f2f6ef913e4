#include "text/jinja/operations.h"

#include <string.h>

#include <algorithm>
#include <charconv>

#include "text/jinja/methods.h"
#include "text/utf8.h"

namespace penstock::jinja {
namespace {

constexpr size_t kMessageMax = 160;  // bytes of a name in an error message

double to_double(const Value& value) {
  if (value.is(ValueKind::kFloat)) return value.as_float();
  return static_cast<double>(value.is(ValueKind::kBool) ? int64_t{value.as_bool()} : value.as_int());
}

int64_t to_int(const Value& value) {
  return value.is(ValueKind::kBool) ? int64_t{value.as_bool()} : value.as_int();
}

template <typename T>
int order(const T& a, const T& b) {
  return a < b ? -1 : (b < a ? 1 : 0);
}

std::string_view list_name(ListKind kind) {
  switch (kind) {
    case ListKind::kList:
      return "list";
    case ListKind::kTuple:
      return "tuple";
    case ListKind::kGenerator:
      return "generator";
    case ListKind::kKeysView:
      return "dict_keys";
    case ListKind::kValuesView:
      return "dict_values";
    case ListKind::kItemsView:
      return "dict_items";
  }
  return "?";
}

std::string quoted_type(const Value& value) { return "'" + std::string(type_name(value)) + "'"; }

}  // namespace

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kUndefined:
      return "Undefined";
    case ValueKind::kNone:
      return "NoneType";
    case ValueKind::kBool:
      return "bool";
    case ValueKind::kInt:
      return "int";
    case ValueKind::kFloat:
      return "float";
    case ValueKind::kString:
      return "str";
    case ValueKind::kList:
      return list_name(value.as_list().kind);
    case ValueKind::kDict:
      return "dict";
    case ValueKind::kCallable:
      return "function";
    case ValueKind::kObject:
      return value.as_object().type_name();
  }
  return "?";
}

bool truthy(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kUndefined:
    case ValueKind::kNone:
      return false;
    case ValueKind::kBool:
      return value.as_bool();
    case ValueKind::kInt:
      return value.as_int() != 0;
    case ValueKind::kFloat:
      return value.as_float() != 0;
    case ValueKind::kString:
      return !value.text().empty();
    case ValueKind::kList:
      return value.as_list().kind == ListKind::kGenerator || !value.items().empty();
    case ValueKind::kDict:
      return value.as_dict().size() > 0;
    case ValueKind::kCallable:
    case ValueKind::kObject:
      return true;
  }
  return true;
}

Result<bool> equal(Run& run, const Value& a, const Value& b) {
  RETURN_IF_ERROR(run.step());
  if (a.is_number() && b.is_number()) {
    if (a.is(ValueKind::kFloat) || b.is(ValueKind::kFloat)) return to_double(a) == to_double(b);
    return to_int(a) == to_int(b);
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case ValueKind::kString:
      RETURN_IF_ERROR(run.step(std::min(a.text().size(), b.text().size()) / 256));
      return a.text() == b.text();
    case ValueKind::kList:
      if (a.as_list().kind == ListKind::kGenerator) return &a.as_list() == &b.as_list();
      if (a.items().size() != b.items().size() || a.as_list().kind != b.as_list().kind) return false;
      for (size_t i = 0; i < a.items().size(); ++i) {
        ASSIGN_OR_RETURN(const bool same, equal(run, a.items()[i], b.items()[i]));
        if (!same) return false;
      }
      return true;
    case ValueKind::kDict:
      if (a.as_dict().size() != b.as_dict().size()) return false;
      for (const auto& [key, value] : a.as_dict().entries()) {
        ASSIGN_OR_RETURN(const Value* other, look_up(run, b.as_dict(), key));
        if (other == nullptr) return false;
        ASSIGN_OR_RETURN(const bool same, equal(run, value, *other));
        if (!same) return false;
      }
      return true;
    case ValueKind::kCallable:
      return &a.as_callable() == &b.as_callable();
    case ValueKind::kObject:
      return &a.as_object() == &b.as_object();
    default:
      return true;  // undefined, none
  }
}

Result<int> compare(Run& run, const Value& a, const Value& b) {
  RETURN_IF_ERROR(run.step());
  if (a.is_number() && b.is_number()) {
    if (a.is(ValueKind::kFloat) || b.is(ValueKind::kFloat)) return order(to_double(a), to_double(b));
    return order(to_int(a), to_int(b));
  }
  if (a.is(ValueKind::kString) && b.is(ValueKind::kString)) {
    RETURN_IF_ERROR(run.step(std::min(a.text().size(), b.text().size()) / 256));
    return a.text().compare(b.text());  // the order of UTF-8 bytes is that of code points
  }
  if (is_indexed(a) && is_indexed(b) && a.as_list().kind == b.as_list().kind) {
    const size_t common = std::min(a.items().size(), b.items().size());
    for (size_t i = 0; i < common; ++i) {
      ASSIGN_OR_RETURN(const bool same, equal(run, a.items()[i], b.items()[i]));
      if (!same) return compare(run, a.items()[i], b.items()[i]);
    }
    return order(a.items().size(), b.items().size());
  }
  if (a.is(ValueKind::kUndefined)) return run.undefined_error(a);
  if (b.is(ValueKind::kUndefined)) return run.undefined_error(b);
  return run.error("TypeError",
                   "'<' not supported between instances of " + quoted_type(a) + " and " + quoted_type(b));
}

// A tuple may hold one value many times, which a hash spells out each time.
Status check_hashable(Run& run, const Value& key) {
  RETURN_IF_ERROR(run.step());
  if (key.is(ValueKind::kString)) return run.charge(key.text().size());
  if (key.is(ValueKind::kDict) || (key.is(ValueKind::kList) && !is_tuple(key))) {
    return run.error("TypeError", "unhashable type: " + quoted_type(key));
  }
  if (!key.is(ValueKind::kList)) return {};
  for (const Value& item : key.items()) RETURN_IF_ERROR(check_hashable(run, item));
  return {};
}

Result<const Value*> look_up(Run& run, const Dict& dict, const Value& key) {
  RETURN_IF_ERROR(check_hashable(run, key));
  return dict.find(key);
}

Result<bool> contains(Run& run, const Value& container, const Value& item) {
  switch (container.kind()) {
    case ValueKind::kUndefined:
      return false;
    case ValueKind::kString: {
      if (!item.is(ValueKind::kString)) {
        return run.error("TypeError", "'in <string>' requires string as left operand, not " +
                                          std::string(type_name(item)));
      }
      const std::string &text = container.text(), &part = item.text();
      RETURN_IF_ERROR(run.step((text.size() + part.size()) / 64));
      // memmem is linear; std::string::find is not.
      return part.empty() || memmem(text.data(), text.size(), part.data(), part.size()) != nullptr;
    }
    case ValueKind::kList:
      for (const Value& candidate : container.items()) {
        ASSIGN_OR_RETURN(const bool same, equal(run, candidate, item));
        if (same) return true;
      }
      return false;
    case ValueKind::kDict: {
      ASSIGN_OR_RETURN(const Value* found, look_up(run, container.as_dict(), item));
      return found != nullptr;
    }
    default:
      return run.error("TypeError", "argument of type " + quoted_type(container) + " is not iterable");
  }
}

Result<bool> test_comparison(Run& run, std::string_view operation, const Value& a, const Value& b) {
  if (operation == "==") return equal(run, a, b);
  if (operation == "in") return contains(run, b, a);
  if (operation == "!=" || operation == "not in") {
    ASSIGN_OR_RETURN(const bool positive, operation == "!=" ? equal(run, a, b) : contains(run, b, a));
    return !positive;
  }
  ASSIGN_OR_RETURN(const int sign, compare(run, a, b));
  if (operation == "<") return sign < 0;
  if (operation == "<=") return sign <= 0;
  return operation == ">" ? sign > 0 : sign >= 0;
}

Result<Value> get_attribute(Run& run, const Value& object, const std::string& name) {
  if (object.is(ValueKind::kUndefined)) return run.undefined_error(object);
  RETURN_IF_ERROR(run.charge(kMessageMax));  // what comes of it may be a new object
  if (has_method(object, name)) return bound_method(object, name);
  if (object.is(ValueKind::kDict)) {
    if (const Value* found = object.as_dict().find(name)) return *found;
  }
  if (object.is(ValueKind::kObject)) {
    if (auto found = object.as_object().attribute(name)) return std::move(*found);
  }
  const std::string type =
      object.is(ValueKind::kNone) ? "None" : "'" + std::string(type_name(object)) + " object'";
  // The name may be a text of any length: it stays in memory as long as the value does.
  std::string_view shown = std::string_view(name).substr(0, kMessageMax);
  while (!shown.empty() && !is_valid_utf8(shown)) shown.remove_suffix(1);
  const char* cut = shown.size() < name.size() ? "..." : "";
  return Value::undefined(type + " has no attribute '" + std::string(shown) + cut + "'");
}

Result<Value> get_item(Run& run, const Value& object, const Value& key) {
  if (object.is(ValueKind::kUndefined)) return run.undefined_error(object);
  const bool unhashable = key.is(ValueKind::kDict) || (key.is(ValueKind::kList) && !is_tuple(key));
  if (object.is(ValueKind::kDict) && !unhashable) {
    ASSIGN_OR_RETURN(const Value* found, look_up(run, object.as_dict(), key));
    if (found != nullptr) return *found;
  }
  const bool is_index = key.is(ValueKind::kInt) || key.is(ValueKind::kBool);
  if (is_index && is_indexed(object)) {
    const auto size = static_cast<int64_t>(object.items().size());
    const int64_t index = to_int(key) < 0 ? to_int(key) + size : to_int(key);
    if (index >= 0 && index < size) return object.items()[static_cast<size_t>(index)];
  }
  if (is_index && object.is(ValueKind::kString)) {
    const StringData& data = object.as_string();
    RETURN_IF_ERROR(run.step(data.text.size() / 16));
    int64_t left = to_int(key);
    if (left < 0) left += static_cast<int64_t>(count_code_points(data.text));
    for (size_t at = 0; left >= 0 && at < data.text.size(); --left) {
      const size_t next = at + decode_utf8(std::string_view(data.text).substr(at)).length;
      if (left == 0) return run.string(part_of(data, at, next));
      at = next;
    }
  }
  if (key.is(ValueKind::kString)) return get_attribute(run, object, key.text());
  return Value::undefined("'" + std::string(type_name(object)) + " object' has no such element");
}

Result<Value> get_path(Run& run, const Value& object, const Value& path) {
  if (!path.is(ValueKind::kString)) return get_item(run, object, path);
  Value at = object;
  std::string_view rest = path.text();
  for (bool more = true; more;) {
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    more = dot != std::string_view::npos;
    if (more) rest.remove_prefix(dot + 1);
    int64_t index = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = parsed.ec == std::errc() && parsed.ptr == part.data() + part.size();
    const Value key = is_index ? Value(index) : Value::string(std::string(part), Origin::kTemplate);
    ASSIGN_OR_RETURN(at, get_item(run, at, key));
  }
  return at;
}

Result<Value> slice(Run& run, const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is(ValueKind::kUndefined)) return run.undefined_error(object);
  const bool is_string = object.is(ValueKind::kString);
  if (!is_string && !is_indexed(object)) {
    return run.error("TypeError", quoted_type(object) + " object cannot be sliced");
  }
  for (const Value* bound : {&start, &stop, &step}) {
    if (!bound->is(ValueKind::kInt) && !bound->is(ValueKind::kNone)) {
      return run.error("TypeError", "slice indices must be integers or None");
    }
  }
  std::vector<size_t> offsets;
  if (is_string) {
    RETURN_IF_ERROR(run.charge(object.text().size() * sizeof(size_t)));
    offsets = character_offsets(object.text());
  }
  const auto size = static_cast<int64_t>(is_string ? offsets.size() - 1 : object.items().size());
  const int64_t stride = step.is(ValueKind::kInt) ? step.as_int() : 1;
  if (stride == 0) return run.error("ValueError", "slice step cannot be zero");
  // Bounds as Python clips them; walking down, "before the first" is -1.
  const auto clip = [&](const Value& bound, int64_t otherwise) {
    if (!bound.is(ValueKind::kInt)) return otherwise;
    const int64_t at = bound.as_int() < 0 ? bound.as_int() + size : bound.as_int();
    return std::clamp(at, stride < 0 ? int64_t{-1} : 0, stride < 0 ? size - 1 : size);
  };
  const int64_t first = clip(start, stride < 0 ? size - 1 : 0), last = clip(stop, stride < 0 ? -1 : size);
  TextBuilder text;
  std::vector<Value> items;
  for (int64_t i = first; stride > 0 ? i < last : i > last;) {
    RETURN_IF_ERROR(run.step());
    const auto at = static_cast<size_t>(i);
    if (is_string && stride == 1) {  // in one piece
      text.append_part(object.as_string(), offsets[at], offsets[static_cast<size_t>(last)]);
      break;
    }
    if (is_string) {
      text.append_part(object.as_string(), offsets[at], offsets[at + 1]);
    } else {
      items.push_back(object.items()[at]);
    }
    if (__builtin_add_overflow(i, stride, &i)) break;
  }
  return is_string ? run.string(text.take()) : run.list(std::move(items), object.as_list().kind);
}

Result<std::vector<Value>> iterate(Run& run, const Value& value) {
  std::vector<Value> items;
  switch (value.kind()) {
    case ValueKind::kUndefined:
      return items;
    case ValueKind::kList:
      RETURN_IF_ERROR(run.charge(value.items().size() * sizeof(Value)));
      return value.items();
    case ValueKind::kDict:
      RETURN_IF_ERROR(run.charge(value.as_dict().size() * sizeof(Value)));
      for (const auto& [key, item] : value.as_dict().entries()) items.push_back(key);
      return items;
    case ValueKind::kString: {
      const StringData& data = value.as_string();
      RETURN_IF_ERROR(run.charge(data.text.size() * sizeof(size_t)));
      const auto offsets = character_offsets(data.text);
      for (size_t i = 0; i + 1 < offsets.size(); ++i) {
        ASSIGN_OR_RETURN(Value character, run.string(part_of(data, offsets[i], offsets[i + 1])));
        items.push_back(std::move(character));
      }
      return items;
    }
    default:
      return run.error("TypeError", quoted_type(value) + " object is not iterable");
  }
}

std::vector<size_t> character_offsets(std::string_view text) {
  std::vector<size_t> offsets;
  for (size_t at = 0; at < text.size(); at += decode_utf8(text.substr(at)).length) offsets.push_back(at);
  offsets.push_back(text.size());
  return offsets;
}

}  // namespace penstock::jinja
