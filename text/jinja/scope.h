// Variables of a rendering: a chain of scopes, looked up from the innermost out.
//
// Owned by the renderer of one run. A scope that a macro has captured lives until the run ends; the others go
// with their block.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace penstock::jinja {

class Scope {
 public:
  explicit Scope(Scope* parent) : parent_(parent), depth_(parent == nullptr ? 0 : parent->depth_ + 1) {}

  Scope* parent() const { return parent_; }
  int depth() const { return depth_; }  // how many scopes it lies in
  const Value* find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_) {
      const size_t place = scope->place_of(name);
      if (place < scope->variables_.size()) return &scope->variables_[place].second;
    }
    return nullptr;
  }
  void set(const std::string& name, Value value) {
    const size_t place = place_of(name);
    if (place < variables_.size()) {
      variables_[place].second = std::move(value);
      return;
    }
    variables_.emplace_back(name, std::move(value));
    if (variables_.size() == kScanVariables + 1) {
      for (size_t i = 0; i < variables_.size(); ++i) index_.emplace(variables_[i].first, i);
    } else if (variables_.size() > kScanVariables) {
      index_.emplace(name, place);
    }
  }
  // Returns the bytes of what now lives on.
  size_t capture() {
    size_t bytes = 0;
    for (Scope* scope = this; scope != nullptr && !scope->captured_; scope = scope->parent_) {
      scope->captured_ = true;
      bytes += sizeof(Scope) + scope->variables_.capacity() * sizeof(variables_[0]);
    }
    return bytes;
  }
  bool captured() const { return captured_; }

 private:
  static constexpr size_t kScanVariables = 16;  // up to here a scan is quickest

  size_t place_of(std::string_view name) const {  // variables_.size() when absent
    if (variables_.size() > kScanVariables) {
      const auto found = index_.find(name);
      return found != index_.end() ? found->second : variables_.size();
    }
    size_t place = 0;
    while (place < variables_.size() && variables_[place].first != name) ++place;
    return place;
  }

  Scope* parent_;
  int depth_;
  std::vector<std::pair<std::string, Value>> variables_;
  std::map<std::string, size_t, std::less<>> index_;  // kept above kScanVariables only
  bool captured_ = false;
};

}  // namespace penstock::jinja
