#include "text/jinja/printing.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/operations.h"
#include "text/jinja/strings.h"

namespace penstock::jinja {
namespace {

// Grows a text under the run's budget: a value that contains itself many times prints exponentially long.
class Writer {
 public:
  explicit Writer(Run& run) : run_(run) {}
  Status add(std::string_view text) {
    RETURN_IF_ERROR(run_.step());
    RETURN_IF_ERROR(run_.charge(text.size()));
    text_.append(text);
    return {};
  }
  Run& run() { return run_; }
  std::string take() { return std::move(text_); }

 private:
  Run& run_;
  std::string text_;
};

// Texts without contents: the same for str() and repr().
std::string scalar_text(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kNone:
      return "None";
    case ValueKind::kBool:
      return value.as_bool() ? "True" : "False";
    case ValueKind::kInt:
      return std::to_string(value.as_int());
    case ValueKind::kFloat:
      return format_float(value.as_float());
    case ValueKind::kCallable:
      return "<function " + value.as_callable().name + ">";
    case ValueKind::kObject:
      return "<" + std::string(value.as_object().type_name()) + " object>";
    default:
      return "";  // undefined
  }
}

Status write_repr(Writer& out, const Value& value);

Status write_list_repr(Writer& out, const Value& value) {
  const ListKind kind = value.as_list().kind;
  const std::string name(type_name(value));
  if (kind == ListKind::kGenerator) return out.add("<" + name + " object>");
  const bool tuple = kind == ListKind::kTuple, view = kind > ListKind::kTuple;
  RETURN_IF_ERROR(out.add(tuple ? "(" : view ? name + "([" : "["));
  bool first = true;
  for (const Value& item : value.items()) {
    if (!std::exchange(first, false)) RETURN_IF_ERROR(out.add(", "));
    RETURN_IF_ERROR(write_repr(out, item));
  }
  if (tuple && value.items().size() == 1) RETURN_IF_ERROR(out.add(","));
  return out.add(tuple ? ")" : view ? "])" : "]");
}

Status write_repr(Writer& out, const Value& value) {
  switch (value.kind()) {
    case ValueKind::kUndefined:
      return out.add("Undefined");
    case ValueKind::kString:
      return out.add(quote_python(value.text()));
    case ValueKind::kList:
      return write_list_repr(out, value);
    case ValueKind::kDict: {
      RETURN_IF_ERROR(out.add("{"));
      bool first = true;
      for (const auto& [key, item] : value.as_dict().entries()) {
        if (!std::exchange(first, false)) RETURN_IF_ERROR(out.add(", "));
        RETURN_IF_ERROR(write_repr(out, key));
        RETURN_IF_ERROR(out.add(": "));
        RETURN_IF_ERROR(write_repr(out, item));
      }
      return out.add("}");
    }
    default:
      return out.add(scalar_text(value));
  }
}

class JsonWriter {
 public:
  JsonWriter(Run& run, const JsonStyle& style) : out_(run), style_(style) {}
  Status write(const Value& value, int level);
  std::string take() { return out_.take(); }

 private:
  Status write_list(const Value& value, int level);
  Status write_dict(const Dict& dict, int level);
  Status new_line(int level);
  Failure unserializable(const Value& value) {
    return out_.run().error("TypeError",
                            "Object of type " + std::string(type_name(value)) + " is not JSON serializable");
  }
  Result<std::string> key_text(const Value& key);
  Writer out_;
  const JsonStyle& style_;
};

Status JsonWriter::new_line(int level) {
  if (!style_.indent.has_value()) return {};
  RETURN_IF_ERROR(out_.add("\n"));
  for (int i = 0; i < level; ++i) RETURN_IF_ERROR(out_.add(*style_.indent));
  return {};
}

Status JsonWriter::write(const Value& value, int level) {
  switch (value.kind()) {
    case ValueKind::kNone:
      return out_.add("null");
    case ValueKind::kBool:
      return out_.add(value.as_bool() ? "true" : "false");
    case ValueKind::kFloat:
      if (std::isnan(value.as_float())) return out_.add("NaN");
      if (std::isinf(value.as_float())) return out_.add(value.as_float() < 0 ? "-Infinity" : "Infinity");
      return out_.add(format_float(value.as_float()));
    case ValueKind::kInt:
      return out_.add(std::to_string(value.as_int()));
    case ValueKind::kString:
      return out_.add(quote_json(value.text(), style_.ascii_only));
    case ValueKind::kList:
      if (!is_indexed(value)) return unserializable(value);
      return write_list(value, level);
    case ValueKind::kDict:
      return write_dict(value.as_dict(), level);
    default:
      return unserializable(value);
  }
}

Status JsonWriter::write_list(const Value& value, int level) {
  if (value.items().empty()) return out_.add("[]");
  RETURN_IF_ERROR(out_.add("["));
  bool first = true;
  for (const Value& item : value.items()) {
    if (!std::exchange(first, false)) RETURN_IF_ERROR(out_.add(style_.item_separator));
    RETURN_IF_ERROR(new_line(level + 1));
    RETURN_IF_ERROR(write(item, level + 1));
  }
  RETURN_IF_ERROR(new_line(level));
  return out_.add("]");
}

Result<std::string> JsonWriter::key_text(const Value& key) {
  if (key.is(ValueKind::kString)) return key.text();
  if (key.is(ValueKind::kNone)) return std::string("null");
  if (key.is(ValueKind::kBool)) return std::string(key.as_bool() ? "true" : "false");
  if (key.is_number()) return scalar_text(key);
  return out_.run().error("TypeError", "keys must be str, int, float, bool or None");
}

Status JsonWriter::write_dict(const Dict& dict, int level) {
  if (dict.size() == 0) return out_.add("{}");
  std::vector<std::pair<std::string, const Value*>> entries;
  for (const auto& [key, value] : dict.entries()) {
    ASSIGN_OR_RETURN(std::string text, key_text(key));
    entries.emplace_back(std::move(text), &value);
  }
  if (style_.sort_keys) {
    std::stable_sort(entries.begin(), entries.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  RETURN_IF_ERROR(out_.add("{"));
  bool first = true;
  for (const auto& [key, value] : entries) {
    if (!std::exchange(first, false)) RETURN_IF_ERROR(out_.add(style_.item_separator));
    RETURN_IF_ERROR(new_line(level + 1));
    RETURN_IF_ERROR(out_.add(quote_json(key, style_.ascii_only)));
    RETURN_IF_ERROR(out_.add(style_.key_separator));
    RETURN_IF_ERROR(write(*value, level + 1));
  }
  RETURN_IF_ERROR(new_line(level));
  return out_.add("}");
}

}  // namespace

Status append_printed(Run& run, const Value& value, TextBuilder& out) {
  if (value.is(ValueKind::kString)) {
    RETURN_IF_ERROR(run.charge(value.text().size()));
    out.append(value.as_string());
  } else if (value.is(ValueKind::kList) || value.is(ValueKind::kDict)) {
    Writer writer(run);
    RETURN_IF_ERROR(write_repr(writer, value));
    out.append(writer.take(), Origin::kRequest);
  } else {
    out.append(scalar_text(value), Origin::kTemplate);
  }
  return {};
}

Result<Value> printed(Run& run, const Value& value) {
  if (value.is(ValueKind::kString)) return value;
  TextBuilder text;
  RETURN_IF_ERROR(append_printed(run, value, text));
  return run.string(text.take());
}

Result<std::string> to_json(Run& run, const Value& value, const JsonStyle& style) {
  JsonWriter writer(run, style);
  RETURN_IF_ERROR(writer.write(value, 0));
  return writer.take();
}

}  // namespace penstock::jinja
