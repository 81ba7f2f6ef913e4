#include "text/jinja/runtime.h"

#include <algorithm>

namespace penstock::jinja {
namespace {

Failure exhausted(std::string_view what, int64_t limit) {
  return fail(Error::kResourceExhausted,
              "the template needs more than " + std::to_string(limit) + " " + std::string(what));
}

}  // namespace

Status Run::step(size_t steps) {
  steps_ += static_cast<int64_t>(steps);
  if (steps_ > options_.steps_max) return exhausted("steps", options_.steps_max);
  return {};
}

Status Run::charge(size_t bytes) {
  // `bytes` may be what a template asked for, absurdly large: compare before adding.
  if (bytes > static_cast<size_t>(options_.bytes_max - bytes_)) return exhausted("bytes", options_.bytes_max);
  bytes_ += static_cast<int64_t>(bytes);
  return {};
}

Status Run::enter() {
  if (++depth_ > options_.depth_max) return exhausted("levels of nesting", options_.depth_max);
  return {};
}

Result<Value> Run::string(StringData data) {
  RETURN_IF_ERROR(
      charge(sizeof(StringData) + data.text.size() + data.from_template.size() * sizeof(TextRange)));
  return Value::string(std::move(data));
}

Result<Value> Run::list(std::vector<Value> items, ListKind kind) {
  RETURN_IF_ERROR(charge(sizeof(ListData) + items.size() * sizeof(Value)));
  Value value = Value::list(std::move(items), kind);
  if (value.depth() > kValueDepthMax) return exhausted("levels of lists", kValueDepthMax);
  return value;
}

Result<Value> Run::dict(Dict dict) {
  RETURN_IF_ERROR(charge(sizeof(Dict) + dict.size() * (2 * sizeof(Value) + 64)));
  if (dict.depth() > kValueDepthMax) return exhausted("levels of dicts", kValueDepthMax);
  return Value(std::move(dict));
}

Value Run::own(std::unique_ptr<Object> object) {
  objects_.push_back(std::move(object));
  return Value(objects_.back().get());
}

Failure Run::error(std::string_view kind, std::string_view message) const {
  return fail(Error::kInvalidArgument, std::string(kind) + ": " + std::string(message));
}

Failure Run::undefined_error(const Value& undefined) const {
  const std::string* reason = undefined.undefined_reason();
  return error("UndefinedError", reason != nullptr ? *reason : "the value is undefined");
}

Failure Run::raise(std::string message) {
  raised_ = true;
  return fail(Error::kInvalidArgument, std::move(message));
}

Result<Bound> bind(Run& run, std::string_view function, const Arguments& arguments,
                   std::initializer_list<std::string_view> parameters) {
  CHECK_LE(parameters.size(), Bound::kMax);
  const std::string who = std::string(function) + "()";
  if (arguments.positional.size() > parameters.size()) {
    return run.error("TypeError", who + " takes at most " + std::to_string(parameters.size()) + " arguments");
  }
  Bound bound;
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound.values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end()) {
      return run.error("TypeError", who + " got an unexpected argument '" + name + "'");
    }
    const auto index = static_cast<size_t>(found - parameters.begin());
    if (bound.values_[index] != nullptr) {
      return run.error("TypeError", who + " got argument '" + name + "' twice");
    }
    bound.values_[index] = &value;
  }
  return bound;
}

Result<int64_t> int_argument(Run& run, const Bound& bound, size_t index, std::string_view function,
                             int64_t otherwise) {
  if (!bound.has(index)) return otherwise;
  if (bound[index]->is(ValueKind::kInt)) return bound[index]->as_int();
  if (bound[index]->is(ValueKind::kBool)) return int64_t{bound[index]->as_bool()};
  return run.error("TypeError", std::string(function) + "() needs an integer");
}

Result<std::string> text_argument(Run& run, const Bound& bound, size_t index, std::string_view function,
                                  std::string_view otherwise) {
  if (!bound.has(index)) return std::string(otherwise);
  if (bound[index]->is(ValueKind::kString)) return bound[index]->text();
  return run.error("TypeError", std::string(function) + "() needs a string");
}

}  // namespace penstock::jinja
