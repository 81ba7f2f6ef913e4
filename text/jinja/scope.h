// Variables of a rendering: a chain of scopes, looked up from the innermost out.
//
// Owned by the renderer of one run. A scope that a macro has captured lives until the run ends; the others go
// with their block.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace penstock::jinja {

class Scope {
 public:
  explicit Scope(Scope* parent) : parent_(parent) {}

  Scope* parent() const { return parent_; }
  const Value* find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_) {
      for (const auto& [key, value] : scope->variables_) {
        if (key == name) return &value;
      }
    }
    return nullptr;
  }
  void set(const std::string& name, Value value) {
    for (auto& [key, existing] : variables_) {
      if (key == name) {
        existing = std::move(value);
        return;
      }
    }
    variables_.emplace_back(name, std::move(value));
  }
  void capture() {
    for (Scope* scope = this; scope != nullptr; scope = scope->parent_) scope->captured_ = true;
  }
  bool captured() const { return captured_; }

 private:
  Scope* parent_;
  std::vector<std::pair<std::string, Value>> variables_;  // few: a scan is quickest
  bool captured_ = false;
};

}  // namespace penstock::jinja
