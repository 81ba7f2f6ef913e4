// The `loop` variable of a for block.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"

namespace penstock::jinja {

class LoopObject final : public Object {
 public:
  // `level` counts enclosing recursive loops, from 0. `recurse` is loop(...) of a recursive one, or nothing.
  LoopObject(const std::vector<Value>& items, int level, std::shared_ptr<const Callable> recurse)
      : items_(items), level_(level), recurse_(std::move(recurse)) {}

  void move_to(size_t index) { index_ = index; }
  std::optional<Value> attribute(std::string_view name) const override;
  std::string_view type_name() const override { return "LoopContext"; }

 private:
  std::vector<Value> items_;
  size_t index_ = 0;
  int level_;
  std::shared_ptr<const Callable> recurse_;
  mutable std::optional<Value> last_changed_;  // what loop.changed() saw last
};

}  // namespace penstock::jinja
