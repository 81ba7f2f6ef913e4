#include "text/jinja/methods.h"

#include <algorithm>
#include <span>

#include "text/jinja/operations.h"
#include "text/jinja/string_methods.h"

namespace penstock::jinja {
namespace {

Result<Value> refuse(Run& run, const Value&, const Arguments&) {
  return run.error("SecurityError",
                   "templates may not change lists and dicts; use namespace() or build a new one");
}

// ---- list, tuple ----

Result<Value> list_index(Run& run, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "index", arguments, {"value"}));
  if (bound[0] == nullptr) return run.error("TypeError", "index() needs a value");
  for (size_t i = 0; i < self.items().size(); ++i) {
    ASSIGN_OR_RETURN(const bool same, equal(run, self.items()[i], *bound[0]));
    if (same) return Value(static_cast<int64_t>(i));
  }
  return run.error("ValueError", "the value is not in list");
}

Result<Value> list_count(Run& run, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "count", arguments, {"value"}));
  if (bound[0] == nullptr) return run.error("TypeError", "count() needs a value");
  int64_t count = 0;
  for (const Value& item : self.items()) {
    ASSIGN_OR_RETURN(const bool same, equal(run, item, *bound[0]));
    count += same ? 1 : 0;
  }
  return Value(count);
}

Result<Value> copy(Run& run, const Value& self, const Arguments& arguments) {
  RETURN_IF_ERROR(bind(run, "copy", arguments, {}));
  return self;
}

// ---- dict ----

Result<Value> dict_items(Run& run, const Value& self, const Arguments& arguments) {
  RETURN_IF_ERROR(bind(run, "items", arguments, {}));
  std::vector<Value> items;
  for (const auto& [key, value] : self.as_dict().entries()) {
    ASSIGN_OR_RETURN(Value pair, run.list({key, value}, ListKind::kTuple));
    items.push_back(std::move(pair));
  }
  return run.list(std::move(items), ListKind::kItemsView);
}

Result<Value> dict_keys(Run& run, const Value& self, const Arguments& arguments) {
  RETURN_IF_ERROR(bind(run, "keys", arguments, {}));
  std::vector<Value> items;
  for (const auto& [key, value] : self.as_dict().entries()) items.push_back(key);
  return run.list(std::move(items), ListKind::kKeysView);
}

Result<Value> dict_values(Run& run, const Value& self, const Arguments& arguments) {
  RETURN_IF_ERROR(bind(run, "values", arguments, {}));
  std::vector<Value> items;
  for (const auto& [key, value] : self.as_dict().entries()) items.push_back(value);
  return run.list(std::move(items), ListKind::kValuesView);
}

Result<Value> dict_get(Run& run, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "get", arguments, {"key", "default"}));
  if (bound[0] == nullptr) return run.error("TypeError", "get() needs a key");
  ASSIGN_OR_RETURN(const Value* found, look_up(run, self.as_dict(), *bound[0]));
  if (found != nullptr) return *found;
  return bound[1] != nullptr ? *bound[1] : Value(None{});
}

struct Method {
  std::string_view name;
  MethodFunction call;
};

constexpr Method kListMethods[] = {
    {"index", list_index}, {"count", list_count}, {"copy", copy},    {"append", refuse},
    {"extend", refuse},    {"insert", refuse},    {"pop", refuse},   {"remove", refuse},
    {"sort", refuse},      {"reverse", refuse},   {"clear", refuse},
};

constexpr Method kTupleMethods[] = {{"index", list_index}, {"count", list_count}};

constexpr Method kDictMethods[] = {
    {"items", dict_items},  {"keys", dict_keys}, {"values", dict_values}, {"get", dict_get},
    {"copy", copy},         {"update", refuse},  {"pop", refuse},         {"popitem", refuse},
    {"setdefault", refuse}, {"clear", refuse},
};

template <size_t kCount>
MethodFunction look_up(const Method (&methods)[kCount], std::string_view name) {
  const auto found = std::find_if(std::begin(methods), std::end(methods),
                                  [&](const Method& method) { return method.name == name; });
  return found != std::end(methods) ? found->call : nullptr;
}

MethodFunction find_method(const Value& object, std::string_view name) {
  switch (object.kind()) {
    case ValueKind::kString:
      return find_string_method(name);
    case ValueKind::kList:
      if (!is_indexed(object)) return nullptr;
      return is_tuple(object) ? look_up(kTupleMethods, name) : look_up(kListMethods, name);
    case ValueKind::kDict:
      return look_up(kDictMethods, name);
    default:
      return nullptr;
  }
}

}  // namespace

bool has_method(const Value& object, std::string_view name) { return find_method(object, name) != nullptr; }

Value bound_method(const Value& object, const std::string& name) {
  const MethodFunction function = find_method(object, name);
  auto callable = std::make_shared<Callable>();
  callable->name = name;
  callable->depth = object.depth() + 1;
  callable->call = [object, function](Run& run, const Arguments& arguments) {
    return function(run, object, arguments);
  };
  return Value(std::shared_ptr<const Callable>(std::move(callable)));
}

Result<Value> call_method(Run& run, const Value& object, std::string_view name, const Arguments& arguments) {
  return find_method(object, name)(run, object, arguments);
}

}  // namespace penstock::jinja
