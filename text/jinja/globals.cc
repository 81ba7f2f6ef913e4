// Functions that every template finds.
#include <ctime>

#include "text/jinja/operations.h"
#include "text/jinja/printing.h"
#include "text/jinja/renderer.h"

namespace penstock::jinja {
namespace {

class NamespaceObject final : public Object {
 public:
  std::optional<Value> attribute(std::string_view name) const override {
    const Value* found = values_.find(name);
    return found != nullptr ? std::optional<Value>(*found) : std::nullopt;
  }
  bool set_attribute(const std::string& name, const Value& value) override {
    values_.set(name, value);
    return true;
  }
  std::string_view type_name() const override { return "Namespace"; }

 private:
  Dict values_;
};

// namespace(a=1), namespace({'a': 1}), dict(...): what was given, by name.
Result<Dict> named_values(Run& run, const Arguments& arguments) {
  Dict dict;
  for (const Value& source : arguments.positional) {
    if (!source.is(ValueKind::kDict)) return run.error("TypeError", "expected a dict or named arguments");
    for (const auto& [key, value] : source.as_dict().entries()) {
      RETURN_IF_ERROR(check_hashable(run, key));
      dict.set(key, value);
    }
  }
  for (const auto& [name, value] : arguments.named) dict.set(name, value);
  return dict;
}

Result<Value> make_namespace(Run& run, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Dict dict, named_values(run, arguments));
  RETURN_IF_ERROR(run.charge(sizeof(NamespaceObject) + dict.size() * (2 * sizeof(Value) + 64)));
  auto object = std::make_unique<NamespaceObject>();
  for (const auto& [key, value] : dict.entries()) {
    if (key.is(ValueKind::kString)) object->set_attribute(key.text(), value);
  }
  return run.own(std::move(object));
}

Result<Value> make_dict(Run& run, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Dict dict, named_values(run, arguments));
  return run.dict(std::move(dict));
}

Result<Value> range(Run& run, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "range", arguments, {"start", "stop", "step"}));
  ASSIGN_OR_RETURN(const int64_t first, int_argument(run, bound, 0, "range", 0));
  ASSIGN_OR_RETURN(const int64_t second, int_argument(run, bound, 1, "range", 0));
  ASSIGN_OR_RETURN(const int64_t step, int_argument(run, bound, 2, "range", 1));
  if (step == 0) return run.error("ValueError", "range() arg 3 must not be zero");
  const int64_t start = bound[1] != nullptr ? first : 0, stop = bound[1] != nullptr ? second : first;
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    RETURN_IF_ERROR(run.step());
    RETURN_IF_ERROR(run.charge(sizeof(Value)));
    items.push_back(Value(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return run.list(std::move(items));
}

Result<Value> raise_exception(Run& run, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "raise_exception", arguments, {"message"}));
  if (bound[0] == nullptr) return run.error("TypeError", "raise_exception() needs a message");
  ASSIGN_OR_RETURN(const Value message, printed(run, *bound[0]));
  return run.raise(message.text());
}

Result<Value> strftime_now(Run& run, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "strftime_now", arguments, {"format"}));
  ASSIGN_OR_RETURN(const std::string format, text_argument(run, bound, 0, "strftime_now", ""));
  const std::tm now = run.options().local_time();
  char buffer[512];
  const size_t length = format.empty() ? 0 : std::strftime(buffer, sizeof(buffer), format.c_str(), &now);
  if (length == 0 && !format.empty()) return run.error("ValueError", "strftime_now() cannot use this format");
  return run.string(std::string(buffer, length), Origin::kTemplate);
}

}  // namespace

void add_globals(Run& run, Scope& scope) {
  const auto add = [&scope](const char* name, Result<Value> (*function)(Run&, const Arguments&)) {
    scope.set(
        name,
        Value(std::shared_ptr<const Callable>(std::make_shared<Callable>(Callable{name, function, 0}))));
  };
  add("range", range);
  add("dict", make_dict);
  add("namespace", make_namespace);
  add("raise_exception", raise_exception);
  if (run.options().local_time) add("strftime_now", strftime_now);
}

}  // namespace penstock::jinja
