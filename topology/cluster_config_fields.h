// The table of configuration keys: one row a key, which loading, overriding and printing all read.
// Internal to topology. A Field points into the configuration it was made for and lives no longer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "topology/cluster_config.h"

namespace penstock::config_internal {

// A value as a source gives it. Text from flags and the environment is read as the field's own kind.
struct Untyped {
  std::string text;
};
using SourceValue = std::variant<int64_t, bool, std::string, Untyped>;

struct IntegerTarget {
  int64_t* value;
  int64_t low, high;
};
struct BoolTarget {
  bool* value;
};
struct TextTarget {
  std::string* value;
  std::function<Status(const std::string&)> check;  // may be empty
};
struct ChoiceTarget {
  std::vector<std::string_view> names;
  std::function<size_t()> get;
  std::function<void(size_t)> set;
};

struct Field {
  std::string section;
  std::string key;
  std::variant<IntegerTarget, BoolTarget, TextTarget, ChoiceTarget> target;
  std::string name() const { return section + "." + key; }
};

[[nodiscard]] std::vector<Field> cluster_fields(ClusterConfig& config);
[[nodiscard]] std::vector<Field> node_fields(NodeConfig& node);

// Sets the field, or says what it takes instead; the caller puts the place in front.
[[nodiscard]] Status assign(const Field& field, const SourceValue& value);
// The value in force as TOML.
[[nodiscard]] std::string toml_value(const Field& field);

}  // namespace penstock::config_internal
