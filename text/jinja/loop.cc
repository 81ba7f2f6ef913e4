#include "text/jinja/loop.h"

#include "text/jinja/operations.h"

namespace penstock::jinja {
namespace {

Value function(const char* name, std::function<Result<Value>(Run&, const Arguments&)> call) {
  return Value(
      std::shared_ptr<const Callable>(std::make_shared<Callable>(Callable{name, std::move(call), 0})));
}

}  // namespace

std::optional<Value> LoopObject::attribute(std::string_view name) const {
  const auto index = static_cast<int64_t>(index_), size = static_cast<int64_t>(items_.size());
  if (name == "index") return Value(index + 1);
  if (name == "index0") return Value(index);
  if (name == "revindex") return Value(size - index);
  if (name == "revindex0") return Value(size - index - 1);
  if (name == "first") return Value(index == 0);
  if (name == "last") return Value(index + 1 == size);
  if (name == "length") return Value(size);
  if (name == "depth") return Value(int64_t{level_ + 1});
  if (name == "depth0") return Value(int64_t{level_});
  if (name == "previtem")
    return index > 0 ? items_[index_ - 1] : Value::undefined("there is no previous item");
  if (name == "nextitem")
    return index + 1 < size ? items_[index_ + 1] : Value::undefined("there is no next item");
  if (name == "cycle") {
    return function("cycle", [index](Run& run, const Arguments& arguments) -> Result<Value> {
      if (arguments.positional.empty()) return run.error("TypeError", "no items for cycling given");
      return arguments.positional[static_cast<size_t>(index) % arguments.positional.size()];
    });
  }
  if (name == "changed") {
    return function("changed", [this](Run& run, const Arguments& arguments) -> Result<Value> {
      ASSIGN_OR_RETURN(Value now, run.list(arguments.positional, ListKind::kTuple));
      bool same = false;
      if (last_changed_.has_value()) {
        ASSIGN_OR_RETURN(same, equal(run, *last_changed_, now));
      }
      if (!same) last_changed_ = std::move(now);
      return Value(!same);
    });
  }
  if (name == "__call__" && recurse_ != nullptr) return Value(recurse_);
  return std::nullopt;
}

}  // namespace penstock::jinja
