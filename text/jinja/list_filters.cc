// Filters over lists and dicts. Where Jinja gives a generator these give the list.
#include <algorithm>

#include "text/jinja/filters.h"
#include "text/jinja/operations.h"
#include "text/jinja/printing.h"
#include "text/jinja/strings.h"
#include "text/jinja/tests.h"
#include "text/utf8.h"

namespace penstock::jinja {
namespace {

Result<Value> default_filter(Run& run, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "default", arguments, {"default_value", "boolean"}));
  const bool by_truth = bound.has(1) && truthy(*bound[1]);
  if (!input.is(ValueKind::kUndefined) && !(by_truth && !truthy(input))) return input;
  return bound[0] != nullptr ? *bound[0] : Value::string("", Origin::kTemplate);
}

Result<Value> length_filter(Run& run, const Value& input, const Arguments& arguments) {
  RETURN_IF_ERROR(bind(run, "length", arguments, {}));
  switch (input.kind()) {
    case ValueKind::kUndefined:
      return Value(int64_t{0});
    case ValueKind::kString:
      RETURN_IF_ERROR(run.step(input.text().size() / 64));
      return Value(static_cast<int64_t>(count_code_points(input.text())));
    case ValueKind::kList:
      if (input.as_list().kind == ListKind::kGenerator) break;
      return Value(static_cast<int64_t>(input.items().size()));
    case ValueKind::kDict:
      return Value(static_cast<int64_t>(input.as_dict().size()));
    default:
      break;
  }
  return run.error("TypeError", "object of type '" + std::string(type_name(input)) + "' has no len()");
}

bool is_generator(const Value& value) {
  return value.is(ValueKind::kList) && value.as_list().kind == ListKind::kGenerator;
}

// What Jinja yields item by item: always true, without a length.
Result<Value> generated(Run& run, std::vector<Value> items) {
  return run.list(std::move(items), ListKind::kGenerator);
}

Result<Value> list_filter(Run& run, const Value& input, const Arguments& arguments) {
  RETURN_IF_ERROR(bind(run, "list", arguments, {}));
  ASSIGN_OR_RETURN(std::vector<Value> items, iterate(run, input));
  return run.list(std::move(items));
}

template <bool kFirst>
Result<Value> end_filter(Run& run, const Value& input, const Arguments& arguments) {
  const std::string_view name = kFirst ? "first" : "last";
  RETURN_IF_ERROR(bind(run, name, arguments, {}));
  if (!kFirst && is_generator(input)) {
    return run.error("TypeError", "'generator' object is not reversible; make it a list first");
  }
  ASSIGN_OR_RETURN(const std::vector<Value> items, iterate(run, input));
  if (items.empty()) return Value::undefined("No " + std::string(name) + " item, sequence was empty.");
  return kFirst ? items.front() : items.back();
}

Result<Value> reverse_filter(Run& run, const Value& input, const Arguments& arguments) {
  RETURN_IF_ERROR(bind(run, "reverse", arguments, {}));
  if (input.is(ValueKind::kString)) return slice(run, input, None{}, None{}, int64_t{-1});
  ASSIGN_OR_RETURN(std::vector<Value> items, iterate(run, input));
  std::reverse(items.begin(), items.end());
  return run.list(std::move(items), is_generator(input) ? ListKind::kList : ListKind::kGenerator);
}

Result<Value> items_filter(Run& run, const Value& input, const Arguments& arguments) {
  RETURN_IF_ERROR(bind(run, "items", arguments, {}));
  if (input.is(ValueKind::kUndefined)) return generated(run, {});
  if (!input.is(ValueKind::kDict)) return run.error("TypeError", "Can only get item pairs from a mapping.");
  std::vector<Value> pairs;
  for (const auto& [key, value] : input.as_dict().entries()) {
    ASSIGN_OR_RETURN(Value pair, run.list({key, value}, ListKind::kTuple));
    pairs.push_back(std::move(pair));
  }
  return generated(run, std::move(pairs));
}

Result<Value> join_filter(Run& run, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "join", arguments, {"d", "attribute"}));
  ASSIGN_OR_RETURN(const std::vector<Value> items, iterate(run, input));
  TextBuilder out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0 && bound[0] != nullptr) RETURN_IF_ERROR(append_printed(run, *bound[0], out));
    Value item = items[i];
    if (bound.has(1)) {
      ASSIGN_OR_RETURN(item, get_path(run, item, *bound[1]));
    }
    RETURN_IF_ERROR(append_printed(run, item, out));
  }
  return run.string(out.take());
}

// What sort, unique, min, max and groupby compare: the attribute if one is named, in lower case unless case
// matters.
Result<Value> sort_key(Run& run, const Value& item, const Value* attribute, bool case_sensitive) {
  Value key = item;
  if (attribute != nullptr && !attribute->is(ValueKind::kNone)) {
    ASSIGN_OR_RETURN(key, get_path(run, item, *attribute));
  }
  if (case_sensitive || !key.is(ValueKind::kString)) return key;
  return run.string(lower(key.text()), Origin::kRequest);
}

struct Keyed {
  Value key, item;
};

Result<std::vector<Keyed>> keyed_items(Run& run, const Value& input, const Value* attribute,
                                       bool case_sensitive) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, iterate(run, input));
  std::vector<Keyed> keyed;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(Value key, sort_key(run, item, attribute, case_sensitive));
    keyed.push_back({std::move(key), item});
  }
  return keyed;
}

Status sort_by_key(Run& run, std::vector<Keyed>& keyed, bool reverse) {
  Status status;
  const auto before = [&](const Keyed& a, const Keyed& b) {
    if (!status.ok()) return false;
    const auto sign = compare(run, reverse ? b.key : a.key, reverse ? a.key : b.key);
    if (!sign.ok()) status = sign.failure();
    return sign.ok() && *sign < 0;
  };
  std::stable_sort(keyed.begin(), keyed.end(), before);
  return status;
}

Result<Value> items_of(Run& run, std::vector<Keyed>& keyed) {
  std::vector<Value> items;
  for (Keyed& entry : keyed) items.push_back(std::move(entry.item));
  return run.list(std::move(items));
}

Result<Value> sort_filter(Run& run, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound,
                   bind(run, "sort", arguments, {"reverse", "case_sensitive", "attribute"}));
  ASSIGN_OR_RETURN(auto keyed, keyed_items(run, input, bound[2], bound.has(1) && truthy(*bound[1])));
  RETURN_IF_ERROR(sort_by_key(run, keyed, bound.has(0) && truthy(*bound[0])));
  return items_of(run, keyed);
}

Result<Value> dictsort_filter(Run& run, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "dictsort", arguments, {"case_sensitive", "by", "reverse"}));
  ASSIGN_OR_RETURN(const std::string by, text_argument(run, bound, 1, "dictsort", "key"));
  if (by != "key" && by != "value")
    return run.error("FilterArgumentError", "dictsort() sorts by 'key' or 'value'");
  if (input.is(ValueKind::kUndefined)) return run.undefined_error(input);
  ASSIGN_OR_RETURN(const Value pairs, items_filter(run, input, {}));
  const Value index(int64_t{by == "key" ? 0 : 1});
  ASSIGN_OR_RETURN(auto keyed, keyed_items(run, pairs, &index, bound.has(0) && truthy(*bound[0])));
  RETURN_IF_ERROR(sort_by_key(run, keyed, bound.has(2) && truthy(*bound[2])));
  return items_of(run, keyed);
}

Result<Value> unique_filter(Run& run, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "unique", arguments, {"case_sensitive", "attribute"}));
  ASSIGN_OR_RETURN(const auto keyed, keyed_items(run, input, bound[1], bound.has(0) && truthy(*bound[0])));
  Dict seen;
  std::vector<Value> items;
  for (const Keyed& entry : keyed) {
    RETURN_IF_ERROR(check_hashable(run, entry.key));
    if (seen.find(entry.key) != nullptr) continue;
    RETURN_IF_ERROR(run.charge(128));
    seen.set(entry.key, Value(true));
    items.push_back(entry.item);
  }
  return generated(run, std::move(items));
}

template <bool kMax>
Result<Value> extreme_filter(Run& run, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound,
                   bind(run, kMax ? "max" : "min", arguments, {"case_sensitive", "attribute"}));
  ASSIGN_OR_RETURN(const auto keyed, keyed_items(run, input, bound[1], bound.has(0) && truthy(*bound[0])));
  if (keyed.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  const Keyed* best = &keyed[0];
  for (size_t i = 1; i < keyed.size(); ++i) {
    ASSIGN_OR_RETURN(const int sign, compare(run, keyed[i].key, best->key));
    if (kMax ? sign > 0 : sign < 0) best = &keyed[i];
  }
  return best->item;
}

Result<Value> groupby_filter(Run& run, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound,
                   bind(run, "groupby", arguments, {"attribute", "default", "case_sensitive"}));
  if (!bound.has(0)) return run.error("TypeError", "groupby() needs an attribute");
  ASSIGN_OR_RETURN(auto keyed, keyed_items(run, input, bound[0], bound.has(2) && truthy(*bound[2])));
  RETURN_IF_ERROR(sort_by_key(run, keyed, false));
  std::vector<Value> groups;
  for (size_t begin = 0; begin < keyed.size();) {
    std::vector<Value> members;
    size_t end = begin;
    for (; end < keyed.size(); ++end) {
      ASSIGN_OR_RETURN(const bool same, equal(run, keyed[end].key, keyed[begin].key));
      if (!same) break;
      members.push_back(keyed[end].item);
    }
    ASSIGN_OR_RETURN(Value name, get_path(run, keyed[begin].item, *bound[0]));
    ASSIGN_OR_RETURN(Value list, run.list(std::move(members)));
    ASSIGN_OR_RETURN(Value group, run.list({std::move(name), std::move(list)}, ListKind::kTuple));
    groups.push_back(std::move(group));
    begin = end;
  }
  return run.list(std::move(groups));
}

Result<Value> sum_filter(Run& run, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "sum", arguments, {"attribute", "start"}));
  ASSIGN_OR_RETURN(const auto keyed, keyed_items(run, input, bound[0], true));
  Value total = bound[1] != nullptr ? *bound[1] : Value(int64_t{0});
  for (const Keyed& entry : keyed) {
    ASSIGN_OR_RETURN(total, arithmetic(run, "+", total, entry.key));
  }
  return total;
}

Result<Value> attr_filter(Run& run, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "attr", arguments, {"name"}));
  ASSIGN_OR_RETURN(const std::string name, text_argument(run, bound, 0, "attr", ""));
  if (input.is(ValueKind::kDict)) return Value::undefined("'dict object' has no attribute '" + name + "'");
  return get_attribute(run, input, name);
}

Result<Value> batch_filter(Run& run, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "batch", arguments, {"linecount", "fill_with"}));
  ASSIGN_OR_RETURN(const int64_t size, int_argument(run, bound, 0, "batch", 0));
  if (size < 1) return run.error("ValueError", "batch() needs a positive line count");
  ASSIGN_OR_RETURN(const std::vector<Value> items, iterate(run, input));
  std::vector<Value> batches, batch;
  for (size_t i = 0; i < items.size(); ++i) {
    batch.push_back(items[i]);
    const bool full = static_cast<int64_t>(batch.size()) == size;
    if (!full && i + 1 < items.size()) continue;
    if (!full && bound.has(1)) {
      RETURN_IF_ERROR(run.charge(static_cast<size_t>(size) * sizeof(Value)));
      batch.resize(static_cast<size_t>(size), *bound[1]);
    }
    ASSIGN_OR_RETURN(Value list, run.list(std::exchange(batch, {})));
    batches.push_back(std::move(list));
  }
  return generated(run, std::move(batches));
}

// The arguments behind the first `count` positional ones.
Arguments without_first(const Arguments& arguments, size_t count) {
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(), rest.positional.begin() + static_cast<ptrdiff_t>(count));
  return rest;
}

// map('filter', ...) or map(attribute='name', default=...).
Result<Value> map_filter(Run& run, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(std::vector<Value> items, iterate(run, input));
  if (arguments.positional.empty()) {
    ASSIGN_OR_RETURN(const Bound bound, bind(run, "map", arguments, {"attribute", "default"}));
    if (!bound.has(0)) return run.error("FilterArgumentError", "map requires a filter argument");
    for (Value& item : items) {
      ASSIGN_OR_RETURN(item, get_path(run, item, *bound[0]));
      if (item.is(ValueKind::kUndefined) && bound[1] != nullptr) item = *bound[1];
    }
    return generated(run, std::move(items));
  }
  const Value& name = arguments.positional[0];
  const FilterFunction filter = name.is(ValueKind::kString) ? find_filter(name.text()) : nullptr;
  if (filter == nullptr) return run.error("TemplateRuntimeError", "map() names no filter");
  const Arguments rest = without_first(arguments, 1);
  Level level(run);
  RETURN_IF_ERROR(level.status());
  for (Value& item : items) {
    RETURN_IF_ERROR(run.step());
    ASSIGN_OR_RETURN(item, filter(run, item, rest));
  }
  return generated(run, std::move(items));
}

// select, reject(test, ...); selectattr, rejectattr(attribute, test, ...). Without a test: by truth.
template <bool kAttribute, bool kKeep>
Result<Value> select_filter(Run& run, const Value& input, const Arguments& arguments) {
  const size_t skip = kAttribute ? 1 : 0;
  if (arguments.positional.size() < skip)
    return run.error("FilterArgumentError", "selectattr() needs an attribute");
  TestFunction test = nullptr;
  Arguments rest;
  if (arguments.positional.size() > skip) {
    const Value& name = arguments.positional[skip];
    test = name.is(ValueKind::kString) ? find_test(name.text()) : nullptr;
    if (test == nullptr) return run.error("TemplateRuntimeError", "select() names no test");
    rest = without_first(arguments, skip + 1);
  }
  ASSIGN_OR_RETURN(const std::vector<Value> items, iterate(run, input));
  std::vector<Value> kept;
  for (const Value& item : items) {
    RETURN_IF_ERROR(run.step());
    Value subject = item;
    if (kAttribute) {
      ASSIGN_OR_RETURN(subject, get_path(run, item, arguments.positional[0]));
    }
    ASSIGN_OR_RETURN(const bool passes,
                     test != nullptr ? test(run, subject, rest) : Result<bool>(truthy(subject)));
    if (passes == kKeep) kept.push_back(item);
  }
  return generated(run, std::move(kept));
}

struct Filter {
  std::string_view name;
  FilterFunction call;
};

constexpr Filter kFilters[] = {
    {"default", default_filter},
    {"d", default_filter},
    {"length", length_filter},
    {"count", length_filter},
    {"list", list_filter},
    {"first", end_filter<true>},
    {"last", end_filter<false>},
    {"reverse", reverse_filter},
    {"items", items_filter},
    {"join", join_filter},
    {"sort", sort_filter},
    {"dictsort", dictsort_filter},
    {"unique", unique_filter},
    {"max", extreme_filter<true>},
    {"min", extreme_filter<false>},
    {"groupby", groupby_filter},
    {"sum", sum_filter},
    {"attr", attr_filter},
    {"batch", batch_filter},
    {"map", map_filter},
    {"select", select_filter<false, true>},
    {"reject", select_filter<false, false>},
    {"selectattr", select_filter<true, true>},
    {"rejectattr", select_filter<true, false>},
};

}  // namespace

FilterFunction find_list_filter(std::string_view name) {
  const auto found = std::find_if(std::begin(kFilters), std::end(kFilters),
                                  [&](const Filter& filter) { return filter.name == name; });
  return found != std::end(kFilters) ? found->call : nullptr;
}

}  // namespace penstock::jinja
