// value_from_json of value.h.
#include <simdjson.h>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace penstock::jinja {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

Result<Value> convert(const element& value, int depth);

Result<Value> convert_list(const simdjson::dom::array& array, int depth) {
  std::vector<Value> items;
  for (const element& child : array) {
    ASSIGN_OR_RETURN(Value item, convert(child, depth + 1));
    items.push_back(std::move(item));
  }
  return Value::list(std::move(items));
}

Result<Value> convert_dict(const simdjson::dom::object& object, int depth) {
  Dict dict;
  for (const auto& [key, child] : object) {
    ASSIGN_OR_RETURN(Value item, convert(child, depth + 1));
    dict.set(std::string(key), std::move(item));
  }
  return Value(std::move(dict));
}

Result<Value> convert(const element& value, int depth) {
  if (depth > kValueDepthMax) {
    return fail(Error::kInvalidArgument,
                "JSON is nested more than " + std::to_string(kValueDepthMax) + " levels deep");
  }
  switch (value.type()) {
    case element_type::NULL_VALUE:
      return Value(None{});
    case element_type::BOOL:
      return Value(bool{value.get_bool().value_unsafe()});
    case element_type::INT64:
      return Value(int64_t{value.get_int64().value_unsafe()});
    case element_type::UINT64:
      return fail(Error::kInvalidArgument, "integer " + std::to_string(value.get_uint64().value_unsafe()) +
                                               " does not fit in 64 bits");
    case element_type::DOUBLE:
      return Value(double{value.get_double().value_unsafe()});
    case element_type::STRING:
      return Value::string(std::string(value.get_string().value_unsafe()), Origin::kRequest);
    case element_type::ARRAY:
      return convert_list(value.get_array().value_unsafe(), depth);
    case element_type::OBJECT:
      return convert_dict(value.get_object().value_unsafe(), depth);
  }
  return fail(Error::kInternal, "unknown JSON type");
}

}  // namespace

Result<Value> value_from_json(std::string_view json) {
  simdjson::dom::parser parser;
  element document;
  if (const auto error = parser.parse(json.data(), json.size()).get(document); error != simdjson::SUCCESS) {
    return fail(Error::kInvalidArgument, std::string("not JSON: ") + simdjson::error_message(error));
  }
  return convert(document, 0);
}

}  // namespace penstock::jinja
