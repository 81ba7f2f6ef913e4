// Values of the template language: Python's None, bool, int, float, str, list, tuple, dict, plus undefined.
//
// Values are immutable and share their contents, so copies are cheap and may cross threads. Strings carry
// their provenance: which bytes the template (or the server) wrote, which came from a request.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/rendered_text.h"

namespace penstock::jinja {

class Value;
class Dict;
struct Callable;  // macros, functions, bound methods: text/jinja/runtime.h
class Object;     // namespace() and loop: mutable, owned by the run that made it

enum class Origin : bool { kRequest, kTemplate };

struct StringData {
  std::string text;
  std::vector<TextRange> from_template;  // as in RenderedText
};

// What Python would call a list of values. All hold their items; a generator may be walked again, unlike
// there.
enum class ListKind : uint8_t { kList, kTuple, kGenerator, kKeysView, kValuesView, kItemsView };

struct ListData {
  std::vector<Value> items;
  ListKind kind = ListKind::kList;
  int depth = 1;  // one more than the deepest item: bounds every recursion over values
};

struct DictData;

enum class ValueKind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kDict,
  kCallable,
  kObject,
};

struct None {
  friend bool operator==(None, None) = default;
};
struct Undefined {
  std::shared_ptr<const std::string> what;  // "'x' is undefined", for the error if it is used
};

class Value {
 public:
  Value() = default;                      // undefined
  Value(None) : data_(None{}) {}          // NOLINT: implicit by design
  Value(bool value) : data_(value) {}     // NOLINT
  Value(int64_t value) : data_(value) {}  // NOLINT
  Value(double value) : data_(value) {}   // NOLINT
  Value(Dict dict);                       // NOLINT
  Value(std::shared_ptr<const Callable> callable) : data_(std::move(callable)) {}  // NOLINT
  Value(Object* object) : data_(object) {}                                         // NOLINT
  Value(const char*) = delete;  // say where the text comes from
  static Value undefined(std::string what);
  static Value string(std::string text, Origin origin);
  static Value string(StringData data);
  static Value list(std::vector<Value> items, ListKind kind = ListKind::kList);

  ValueKind kind() const { return static_cast<ValueKind>(data_.index()); }
  bool is(ValueKind k) const { return kind() == k; }
  bool is_number() const { return is(ValueKind::kInt) || is(ValueKind::kFloat) || is(ValueKind::kBool); }

  // Each may be called only on its kind.
  bool as_bool() const { return std::get<bool>(data_); }
  int64_t as_int() const { return std::get<int64_t>(data_); }
  double as_float() const { return std::get<double>(data_); }
  const StringData& as_string() const { return *std::get<std::shared_ptr<const StringData>>(data_); }
  const std::string& text() const { return as_string().text; }
  const ListData& as_list() const { return *std::get<std::shared_ptr<const ListData>>(data_); }
  const std::vector<Value>& items() const { return as_list().items; }
  const Dict& as_dict() const;
  const Callable& as_callable() const { return *std::get<std::shared_ptr<const Callable>>(data_); }
  Object& as_object() const { return *std::get<Object*>(data_); }
  const std::string* undefined_reason() const { return std::get<Undefined>(data_).what.get(); }

  // 0 for a scalar, one more than its deepest item for a list or dict.
  int depth() const;

 private:
  std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const StringData>,
               std::shared_ptr<const ListData>, std::shared_ptr<const DictData>,
               std::shared_ptr<const Callable>, Object*>
      data_;
};

// Equal for keys that Python calls equal (1, 1.0 and true), different for others.
std::string hash_key(const Value& key);

// A dict in order of insertion. Keys are strings (a template's literal may use others; they print as they
// are).
class Dict {
 public:
  void set(std::string key, Value value);
  void set(const Value& key, Value value);
  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;
  size_t size() const { return entries_.size(); }
  const std::vector<std::pair<Value, Value>>& entries() const { return entries_; }
  int depth() const { return depth_; }

 private:
  std::vector<std::pair<Value, Value>> entries_;
  size_t place_of(const Value& key, const std::string& hash) const;  // size() when absent
  std::unordered_map<std::string, size_t> index_;  // by hash_key(); kept above a handful of entries only
  int depth_ = 1;
};

struct DictData {
  Dict dict;
};

// JSON as a request carries it: every string is of Origin::kRequest. Order of keys is kept, a repeated key
// keeps its first place and last value. Integers beyond 64 bits are refused.
Result<Value> value_from_json(std::string_view json);

}  // namespace penstock::jinja
