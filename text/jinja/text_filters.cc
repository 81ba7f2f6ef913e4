// Filters that make text or numbers of one value.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "text/jinja/filters.h"
#include "text/jinja/operations.h"
#include "text/jinja/printing.h"
#include "text/jinja/string_methods.h"
#include "text/jinja/strings.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace penstock::jinja {
namespace {

template <std::string (*kMap)(std::string_view)>
Result<Value> map_filter(Run& run, const Value& input, const Arguments& arguments) {
  RETURN_IF_ERROR(bind(run, "the filter", arguments, {}));
  ASSIGN_OR_RETURN(const Value text, printed(run, input));
  RETURN_IF_ERROR(run.charge(text.text().size()));
  return mapped(run, text.as_string(), kMap(text.text()));
}

// `title` the filter differs from str.title(): words begin after white space, hyphens and brackets only.
std::string title_filter(std::string_view text) {
  std::string out, word;
  const auto flush = [&] {
    const size_t first = word.empty() ? 0 : decode_utf8(word).length;
    out += upper(std::string_view(word).substr(0, first)) + lower(std::string_view(word).substr(first));
    word.clear();
  };
  for (const char c : text) {
    const bool separates = std::string_view("-([{< \t\n\r\f\v").find(c) != std::string_view::npos;
    if (separates) flush();
    (separates ? out : word).push_back(c);
  }
  flush();
  return out;
}

Result<Value> string_filter(Run& run, const Value& input, const Arguments& arguments) {
  RETURN_IF_ERROR(bind(run, "string", arguments, {}));
  return printed(run, input);
}

Result<Value> trim_filter(Run& run, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "trim", arguments, {"chars"}));
  ASSIGN_OR_RETURN(const Value text, printed(run, input));
  if (bound.has(0) && !bound[0]->is(ValueKind::kString))
    return run.error("TypeError", "trim() needs a string");
  return strip(run, text.as_string(), Side::kBoth, bound.has(0) ? &bound[0]->text() : nullptr);
}

Result<Value> replace_filter(Run& run, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "replace", arguments, {"old", "new", "count"}));
  if (bound[0] == nullptr || bound[1] == nullptr)
    return run.error("TypeError", "replace() needs two strings");
  ASSIGN_OR_RETURN(const int64_t count, int_argument(run, bound, 2, "replace", -1));
  ASSIGN_OR_RETURN(const Value text, printed(run, input));
  ASSIGN_OR_RETURN(const Value from, printed(run, *bound[0]));
  ASSIGN_OR_RETURN(const Value to, printed(run, *bound[1]));
  return replace(run, text.as_string(), from.as_string(), to.as_string(), count);
}

Result<Value> indent_filter(Run& run, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "indent", arguments, {"width", "first", "blank"}));
  if (input.is(ValueKind::kUndefined)) return run.undefined_error(input);
  if (!input.is(ValueKind::kString)) return run.error("TypeError", "indent() needs a string");
  const Value& value = input;
  std::string indent = "    ";
  if (bound.has(0) && bound[0]->is(ValueKind::kString)) {
    indent = bound[0]->text();
  } else if (bound.has(0)) {
    ASSIGN_OR_RETURN(const int64_t width, int_argument(run, bound, 0, "indent", 4));
    RETURN_IF_ERROR(run.charge(static_cast<size_t>(std::max<int64_t>(width, 0))));
    indent.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  const bool first = bound.has(1) && truthy(*bound[1]), blank = bound.has(2) && truthy(*bound[2]);
  const StringData& data = value.as_string();
  TextBuilder out;
  for (size_t begin = 0; begin <= data.text.size();) {
    const size_t end = std::min(data.text.find('\n', begin), data.text.size());
    RETURN_IF_ERROR(run.charge(indent.size() + end - begin + 1));
    if (begin == 0 ? first : (blank || end > begin)) out.append(indent, Origin::kTemplate);
    out.append_part(data, begin, std::min(end + 1, data.text.size()));
    begin = end + 1;
  }
  return run.string(out.take());
}

Result<Value> tojson_filter(Run& run, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound,
                   bind(run, "tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  style.ascii_only = bound.has(0) && truthy(*bound[0]);
  style.sort_keys = bound.has(3) && truthy(*bound[3]);
  if (bound.has(1) && bound[1]->is(ValueKind::kString)) {
    style.indent = bound[1]->text();
  } else if (bound.has(1)) {
    ASSIGN_OR_RETURN(const int64_t width, int_argument(run, bound, 1, "tojson", 0));
    RETURN_IF_ERROR(run.charge(static_cast<size_t>(std::max<int64_t>(width, 0))));
    style.indent = std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  if (style.indent.has_value()) style.item_separator = ",";  // the line ends there
  if (bound.has(2)) {
    const Value& pair = *bound[2];
    if (!pair.is(ValueKind::kList) || pair.items().size() != 2 || !pair.items()[0].is(ValueKind::kString) ||
        !pair.items()[1].is(ValueKind::kString)) {
      return run.error("TypeError", "tojson() needs separators as a pair of strings");
    }
    style.item_separator = pair.items()[0].text();
    style.key_separator = pair.items()[1].text();
  }
  ASSIGN_OR_RETURN(std::string text, to_json(run, input, style));
  return run.string(std::move(text), Origin::kRequest);
}

Result<Value> escape_filter(Run& run, const Value& input, const Arguments& arguments) {
  RETURN_IF_ERROR(bind(run, "escape", arguments, {}));
  ASSIGN_OR_RETURN(const Value value, printed(run, input));
  RETURN_IF_ERROR(run.charge(value.text().size() * 5));
  std::string out;
  for (const char c : value.text()) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out.push_back(c);
    }
  }
  return mapped(run, value.as_string(), std::move(out));
}

// ---- numbers ----

std::optional<double> number_in(std::string_view text) {
  text = right_trimmed(left_trimmed(text));
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size())
    return std::nullopt;
  return value;
}

Result<Value> int_filter(Run& run, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "int", arguments, {"default", "base"}));
  ASSIGN_OR_RETURN(const int64_t base, int_argument(run, bound, 1, "int", 10));
  if (base != 10) return run.error("ValueError", "int() knows base 10 only");
  if (input.is(ValueKind::kUndefined)) return run.undefined_error(input);
  const Value otherwise = bound[0] != nullptr ? *bound[0] : Value(int64_t{0});
  if (input.is(ValueKind::kInt)) return input;
  if (input.is(ValueKind::kBool)) return Value(int64_t{input.as_bool()});
  std::optional<double> number;
  if (input.is(ValueKind::kFloat)) number = input.as_float();
  if (input.is(ValueKind::kString)) {
    std::string_view text = right_trimmed(left_trimmed(input.text()));
    if (!text.empty() && text[0] == '+') text.remove_prefix(1);
    int64_t value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (!text.empty() && parsed.ec == std::errc() && parsed.ptr == text.data() + text.size())
      return Value(value);
    number = number_in(text);
  }
  if (!number || std::isnan(*number) || std::abs(*number) >= 9.2e18) return otherwise;
  return Value(static_cast<int64_t>(*number));
}

Result<Value> float_filter(Run& run, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "float", arguments, {"default"}));
  if (input.is(ValueKind::kUndefined)) return run.undefined_error(input);
  if (input.is(ValueKind::kFloat)) return input;
  if (input.is(ValueKind::kInt)) return Value(static_cast<double>(input.as_int()));
  if (input.is(ValueKind::kBool)) return Value(input.as_bool() ? 1.0 : 0.0);
  if (input.is(ValueKind::kString)) {
    if (const auto number = number_in(input.text())) return Value(*number);
  }
  return bound[0] != nullptr ? *bound[0] : Value(0.0);
}

Result<Value> abs_filter(Run& run, const Value& input, const Arguments& arguments) {
  RETURN_IF_ERROR(bind(run, "abs", arguments, {}));
  if (input.is(ValueKind::kFloat)) return Value(std::abs(input.as_float()));
  if (!input.is_number()) return run.error("TypeError", "abs() needs a number");
  const bool negative = input.is(ValueKind::kInt) && input.as_int() < 0;
  return negative ? negate(run, input) : int_filter(run, input, {});
}

Result<Value> round_filter(Run& run, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "round", arguments, {"precision", "method"}));
  ASSIGN_OR_RETURN(const int64_t precision, int_argument(run, bound, 0, "round", 0));
  ASSIGN_OR_RETURN(const std::string method, text_argument(run, bound, 1, "round", "common"));
  if (!input.is_number()) return run.error("TypeError", "round() needs a number");
  if (precision < 0 || precision > 300)
    return run.error("ValueError", "round() needs a precision from 0 to 300");
  if (method == "common") {
    if (!input.is(ValueKind::kFloat)) return input;
    char buffer[700];  // the C library rounds the exact binary value, half to even, as Python does
    std::snprintf(buffer, sizeof(buffer), "%.*f", static_cast<int>(precision), input.as_float());
    return Value(number_in(buffer).value_or(input.as_float()));
  }
  if (method != "floor" && method != "ceil")
    return run.error("ValueError", "round() knows common, floor and ceil");
  ASSIGN_OR_RETURN(const Value number, float_filter(run, input, {}));
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = number.as_float() * scale;
  return Value((method == "floor" ? std::floor(scaled) : std::ceil(scaled)) / scale);
}

Result<Value> wordcount_filter(Run& run, const Value& input, const Arguments& arguments) {
  RETURN_IF_ERROR(bind(run, "wordcount", arguments, {}));
  ASSIGN_OR_RETURN(const Value value, printed(run, input));
  RETURN_IF_ERROR(run.step(value.text().size() / 16));
  int64_t words = 0;
  bool inside = false;
  for (std::string_view rest = value.text(); !rest.empty();) {
    const Utf8Step step = decode_utf8(rest);
    const bool is_word = is_alphanumeric(step.code_point) || step.code_point == '_';
    words += is_word && !inside ? 1 : 0;
    inside = is_word;
    rest.remove_prefix(step.length);
  }
  return Value(words);
}

struct Filter {
  std::string_view name;
  FilterFunction call;
};

constexpr Filter kFilters[] = {
    {"upper", map_filter<upper>},
    {"lower", map_filter<lower>},
    {"capitalize", map_filter<capitalize>},
    {"title", map_filter<title_filter>},
    {"string", string_filter},
    {"safe", string_filter},
    {"trim", trim_filter},
    {"replace", replace_filter},
    {"indent", indent_filter},
    {"tojson", tojson_filter},
    {"escape", escape_filter},
    {"e", escape_filter},
    {"int", int_filter},
    {"float", float_filter},
    {"abs", abs_filter},
    {"round", round_filter},
    {"wordcount", wordcount_filter},
};

}  // namespace

FilterFunction find_text_filter(std::string_view name) {
  const auto found = std::find_if(std::begin(kFilters), std::end(kFilters),
                                  [&](const Filter& filter) { return filter.name == name; });
  return found != std::end(kFilters) ? found->call : nullptr;
}

FilterFunction find_filter(std::string_view name) {
  const FilterFunction text = find_text_filter(name);
  return text != nullptr ? text : find_list_filter(name);
}

}  // namespace penstock::jinja
