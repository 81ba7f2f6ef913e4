#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/runtime.h"
#include "text/jinja/strings.h"

namespace penstock::jinja {
namespace {

constexpr size_t kScanEntries = 8;  // up to here a scan beats an index

int deepest(const std::vector<Value>& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return depth;
}

}  // namespace

Value::Value(Dict dict) : data_(std::make_shared<const DictData>(DictData{std::move(dict)})) {}

Value Value::undefined(std::string what) {
  Value value;
  value.data_ = Undefined{std::make_shared<const std::string>(std::move(what))};
  return value;
}

Value Value::string(std::string text, Origin origin) {
  StringData data{std::move(text), {}};
  if (origin == Origin::kTemplate && !data.text.empty()) data.from_template.push_back({0, data.text.size()});
  return string(std::move(data));
}

Value Value::string(StringData data) {
  Value value;
  value.data_ = std::make_shared<const StringData>(std::move(data));
  return value;
}

Value Value::list(std::vector<Value> items, ListKind kind) {
  Value value;
  const int depth = 1 + deepest(items);
  value.data_ = std::make_shared<const ListData>(ListData{std::move(items), kind, depth});
  return value;
}

const Dict& Value::as_dict() const { return std::get<std::shared_ptr<const DictData>>(data_)->dict; }

int Value::depth() const {
  switch (kind()) {
    case ValueKind::kList:
      return as_list().depth;
    case ValueKind::kDict:
      return as_dict().depth();
    case ValueKind::kCallable:
      return as_callable().depth;
    default:
      return 0;
  }
}

std::string hash_key(const Value& key) {
  switch (key.kind()) {
    case ValueKind::kString:
      return "s" + key.text();
    case ValueKind::kBool:
      return key.as_bool() ? "i1" : "i0";
    case ValueKind::kInt:
      return "i" + std::to_string(key.as_int());
    case ValueKind::kFloat: {
      const double number = key.as_float();
      if (number == std::floor(number) && std::abs(number) < 9.2e18) {
        return "i" + std::to_string(static_cast<int64_t>(number));
      }
      return "f" + format_float(number);
    }
    case ValueKind::kList: {
      std::string hash = "t";
      for (const Value& item : key.items()) {
        const std::string inner = hash_key(item);
        hash += std::to_string(inner.size());
        hash += ':';
        hash += inner;
      }
      return hash;
    }
    default:
      return "n";
  }
}

size_t Dict::place_of(const Value& key, const std::string& hash) const {
  if (entries_.size() > kScanEntries) {
    const auto found = index_.find(hash);
    return found != index_.end() ? found->second : entries_.size();
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Value& other = entries_[i].first;
    if (key.is(ValueKind::kString) && other.is(ValueKind::kString)) {
      if (key.text() == other.text()) return i;
    } else if (hash_key(other) == hash) {
      return i;
    }
  }
  return entries_.size();
}

void Dict::set(std::string key, Value value) { set(Value::string(std::move(key), Origin::kRequest), value); }

void Dict::set(const Value& key, Value value) {
  const std::string hash = hash_key(key);
  const size_t place = place_of(key, hash);
  depth_ = std::max({depth_, 1 + value.depth(), 1 + key.depth()});
  if (place < entries_.size()) {
    entries_[place].second = std::move(value);
    return;
  }
  entries_.emplace_back(key, std::move(value));
  if (entries_.size() == kScanEntries + 1) {
    for (size_t i = 0; i < entries_.size(); ++i) index_.emplace(hash_key(entries_[i].first), i);
  } else if (entries_.size() > kScanEntries) {
    index_.emplace(hash, place);
  }
}

const Value* Dict::find(std::string_view key) const {
  if (entries_.size() <= kScanEntries) {
    for (const auto& [name, value] : entries_) {
      if (name.is(ValueKind::kString) && name.text() == key) return &value;
    }
    return nullptr;
  }
  std::string hash("s");
  const auto found = index_.find(hash.append(key));
  return found != index_.end() ? &entries_[found->second].second : nullptr;
}

const Value* Dict::find(const Value& key) const {
  if (key.is(ValueKind::kString)) return find(key.text());
  const size_t place = place_of(key, hash_key(key));
  return place < entries_.size() ? &entries_[place].second : nullptr;
}

}  // namespace penstock::jinja
