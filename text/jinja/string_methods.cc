#include "text/jinja/string_methods.h"

#include <string.h>

#include <algorithm>

#include "text/jinja/operations.h"
#include "text/jinja/printing.h"
#include "text/jinja/strings.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace penstock::jinja {
namespace {

constexpr size_t kNowhere = std::string_view::npos;

// Linear, unlike std::string::find.
size_t find_text(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return kNowhere;
  if (part.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return found == nullptr ? kNowhere : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

// Searches from the end are searches from the start of what is reversed: linear too.
std::string reversed(std::string_view text) { return std::string(text.rbegin(), text.rend()); }

Failure needs_text(Run& run, std::string_view function) {
  return run.error("TypeError", std::string(function) + "() needs a string");
}

template <Side kSide>
Result<Value> strip_method(Run& run, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "strip", arguments, {"chars"}));
  if (bound.has(0) && !bound[0]->is(ValueKind::kString)) return needs_text(run, "strip");
  return strip(run, self.as_string(), kSide, bound.has(0) ? &bound[0]->text() : nullptr);
}

template <std::string (*kMap)(std::string_view)>
Result<Value> map_method(Run& run, const Value& self, const Arguments& arguments) {
  RETURN_IF_ERROR(bind(run, "the method", arguments, {}));
  RETURN_IF_ERROR(run.charge(self.text().size()));
  return mapped(run, self.as_string(), kMap(self.text()));
}

// Cuts at white space: runs of it separate, ends are trimmed.
Status split_at_space(Run& run, const StringData& data, int64_t count, std::vector<Value>& parts) {
  std::string_view rest = left_trimmed(data.text);
  const auto offset = [&] { return data.text.size() - rest.size(); };
  while (!rest.empty()) {
    size_t length = 0;
    if (count >= 0 && static_cast<int64_t>(parts.size()) == count) {
      length = rest.size();
    } else {
      while (length < rest.size()) {
        const Utf8Step step = decode_utf8(rest.substr(length));
        if (is_python_space(step.code_point)) break;
        length += step.length;
      }
    }
    ASSIGN_OR_RETURN(Value part, run.string(part_of(data, offset(), offset() + length)));
    parts.push_back(std::move(part));
    rest = left_trimmed(rest.substr(length));
  }
  return {};
}

Result<Value> split(Run& run, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "split", arguments, {"sep", "maxsplit"}));
  ASSIGN_OR_RETURN(const int64_t count, int_argument(run, bound, 1, "split", -1));
  const StringData& data = self.as_string();
  std::vector<Value> parts;
  if (!bound.has(0)) {
    RETURN_IF_ERROR(split_at_space(run, data, count, parts));
    return run.list(std::move(parts));
  }
  if (!bound[0]->is(ValueKind::kString)) return needs_text(run, "split");
  const std::string& separator = bound[0]->text();
  if (separator.empty()) return run.error("ValueError", "empty separator");
  size_t begin = 0;
  for (bool last = false; !last;) {
    RETURN_IF_ERROR(run.step());
    size_t end = count >= 0 && static_cast<int64_t>(parts.size()) == count
                     ? kNowhere
                     : find_text(data.text, separator, begin);
    last = end == kNowhere;
    if (last) end = data.text.size();
    ASSIGN_OR_RETURN(Value part, run.string(part_of(data, begin, end)));
    parts.push_back(std::move(part));
    begin = end + separator.size();
  }
  return run.list(std::move(parts));
}

Result<Value> rsplit(Run& run, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "rsplit", arguments, {"sep", "maxsplit"}));
  ASSIGN_OR_RETURN(const int64_t count, int_argument(run, bound, 1, "rsplit", -1));
  if (count < 0) return split(run, self, arguments);
  if (!bound.has(0) || !bound[0]->is(ValueKind::kString) || bound[0]->text().empty()) {
    return run.error("TypeError", "rsplit() with maxsplit needs a separator");
  }
  const StringData& data = self.as_string();
  RETURN_IF_ERROR(run.charge(data.text.size() + bound[0]->text().size()));
  const std::string backwards = reversed(data.text), separator = reversed(bound[0]->text());
  const size_t size = data.text.size();
  std::vector<Value> parts;
  size_t at = 0;  // counted from the end
  for (bool last = false; !last;) {
    RETURN_IF_ERROR(run.step());
    const bool full = static_cast<int64_t>(parts.size()) == count;
    size_t found = full ? kNowhere : find_text(backwards, separator, at);
    last = found == kNowhere;
    if (last) found = size;
    ASSIGN_OR_RETURN(Value part, run.string(part_of(data, size - found, size - at)));
    parts.push_back(std::move(part));
    at = found + separator.size();
  }
  std::reverse(parts.begin(), parts.end());
  return run.list(std::move(parts));
}

Result<Value> splitlines(Run& run, const Value& self, const Arguments& arguments) {
  RETURN_IF_ERROR(bind(run, "splitlines", arguments, {}));
  const StringData& data = self.as_string();
  std::vector<Value> lines;
  for (size_t begin = 0; begin < data.text.size();) {
    size_t end = std::min(data.text.find_first_of("\r\n", begin), data.text.size());
    ASSIGN_OR_RETURN(Value line, run.string(part_of(data, begin, end)));
    lines.push_back(std::move(line));
    if (data.text.compare(end, 2, "\r\n") == 0) ++end;
    begin = end + 1;
  }
  return run.list(std::move(lines));
}

// startswith and endswith take a string or a tuple of them.
template <bool kAtStart>
Result<Value> has_affix(Run& run, const Value& self, const Arguments& arguments) {
  const std::string_view name = kAtStart ? "startswith" : "endswith";
  ASSIGN_OR_RETURN(const Bound bound, bind(run, name, arguments, {"affix"}));
  if (bound[0] == nullptr) return needs_text(run, name);
  std::vector<Value> affixes = {*bound[0]};
  if (is_tuple(*bound[0])) {
    RETURN_IF_ERROR(run.step(bound[0]->items().size()));
    affixes = bound[0]->items();
  }
  for (const Value& affix : affixes) {
    if (!affix.is(ValueKind::kString)) return needs_text(run, name);
    RETURN_IF_ERROR(run.step(std::min(self.text().size(), affix.text().size()) / 256));
    const bool has = kAtStart ? self.text().starts_with(affix.text()) : self.text().ends_with(affix.text());
    if (has) return Value(true);
  }
  return Value(false);
}

template <bool kAtStart>
Result<Value> remove_affix(Run& run, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "removeprefix", arguments, {"affix"}));
  ASSIGN_OR_RETURN(const std::string affix, text_argument(run, bound, 0, "removeprefix", ""));
  const StringData& data = self.as_string();
  const bool has = kAtStart ? data.text.starts_with(affix) : data.text.ends_with(affix);
  if (!has) return self;
  const size_t size = data.text.size();
  return run.string(kAtStart ? part_of(data, affix.size(), size) : part_of(data, 0, size - affix.size()));
}

Result<Value> replace_method(Run& run, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "replace", arguments, {"old", "new", "count"}));
  if (!bound.has(0) || !bound.has(1) || !bound[0]->is(ValueKind::kString) ||
      !bound[1]->is(ValueKind::kString)) {
    return needs_text(run, "replace");
  }
  ASSIGN_OR_RETURN(const int64_t count, int_argument(run, bound, 2, "replace", -1));
  return replace(run, self.as_string(), bound[0]->as_string(), bound[1]->as_string(), count);
}

// find, rfind: the index in characters, -1 where there is none; index, rindex: ValueError then.
template <bool kFromEnd, bool kRequired>
Result<Value> find_method(Run& run, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "find", arguments, {"sub"}));
  if (!bound.has(0) || !bound[0]->is(ValueKind::kString)) return needs_text(run, "find");
  const std::string &text = self.text(), &part = bound[0]->text();
  RETURN_IF_ERROR(run.step(text.size() / 64));
  size_t found = kNowhere;
  if (kFromEnd) {
    RETURN_IF_ERROR(run.charge(text.size() + part.size()));
    found = find_text(reversed(text), reversed(part), 0);
    if (found != kNowhere) found = text.size() - found - part.size();
  } else {
    found = find_text(text, part, 0);
  }
  if (found != kNowhere) return Value(static_cast<int64_t>(count_code_points(text.substr(0, found))));
  if (kRequired) return run.error("ValueError", "substring not found");
  return Value(int64_t{-1});
}

Result<Value> count_method(Run& run, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "count", arguments, {"sub"}));
  if (!bound.has(0) || !bound[0]->is(ValueKind::kString)) return needs_text(run, "count");
  const std::string &text = self.text(), &part = bound[0]->text();
  if (part.empty()) return Value(static_cast<int64_t>(count_code_points(text)) + 1);
  RETURN_IF_ERROR(run.step(text.size() / 16));
  int64_t count = 0;
  for (size_t at = find_text(text, part, 0); at != kNowhere; at = find_text(text, part, at + part.size()))
    ++count;
  return Value(count);
}

Result<Value> join_method(Run& run, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, bind(run, "join", arguments, {"iterable"}));
  if (bound[0] == nullptr) return run.error("TypeError", "join() needs a list");
  ASSIGN_OR_RETURN(const std::vector<Value> items, iterate(run, *bound[0]));
  TextBuilder out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is(ValueKind::kString)) {
      return run.error("TypeError", "sequence item " + std::to_string(i) + ": expected str instance, " +
                                        std::string(type_name(items[i])) + " found");
    }
    if (i > 0) RETURN_IF_ERROR(append_printed(run, self, out));
    RETURN_IF_ERROR(append_printed(run, items[i], out));
  }
  return run.string(out.take());
}

// True for a text that is not empty and of which every character has the property.
template <bool (*kProperty)(uint32_t)>
Result<Value> all_method(Run& run, const Value& self, const Arguments& arguments) {
  RETURN_IF_ERROR(bind(run, "the method", arguments, {}));
  RETURN_IF_ERROR(run.step(self.text().size() / 16));
  std::string_view text = self.text();
  if (text.empty()) return Value(false);
  while (!text.empty()) {
    const Utf8Step step = decode_utf8(text);
    if (!kProperty(step.code_point)) return Value(false);
    text.remove_prefix(step.length);
  }
  return Value(true);
}

bool is_digit(uint32_t c) { return c >= '0' && c <= '9'; }
bool is_letter(uint32_t c) { return is_alphanumeric(c) && !is_digit(c); }

// At least one cased character, and the mapping changes nothing.
template <std::string (*kMap)(std::string_view), std::string (*kOpposite)(std::string_view)>
Result<Value> case_method(Run& run, const Value& self, const Arguments& arguments) {
  RETURN_IF_ERROR(bind(run, "the method", arguments, {}));
  RETURN_IF_ERROR(run.charge(2 * self.text().size()));
  return Value(kMap(self.text()) == self.text() && kOpposite(self.text()) != self.text());
}

struct Method {
  std::string_view name;
  MethodFunction call;
};

constexpr Method kMethods[] = {
    {"strip", strip_method<Side::kBoth>},
    {"lstrip", strip_method<Side::kLeft>},
    {"rstrip", strip_method<Side::kRight>},
    {"upper", map_method<upper>},
    {"lower", map_method<lower>},
    {"casefold", map_method<casefold>},
    {"title", map_method<title_words>},
    {"capitalize", map_method<capitalize>},
    {"split", split},
    {"rsplit", rsplit},
    {"splitlines", splitlines},
    {"startswith", has_affix<true>},
    {"endswith", has_affix<false>},
    {"removeprefix", remove_affix<true>},
    {"removesuffix", remove_affix<false>},
    {"replace", replace_method},
    {"find", find_method<false, false>},
    {"rfind", find_method<true, false>},
    {"index", find_method<false, true>},
    {"rindex", find_method<true, true>},
    {"count", count_method},
    {"join", join_method},
    {"isdigit", all_method<is_digit>},
    {"isdecimal", all_method<is_digit>},
    {"isalpha", all_method<is_letter>},
    {"isalnum", all_method<is_alphanumeric>},
    {"isspace", all_method<is_python_space>},
    {"isupper", case_method<upper, lower>},
    {"islower", case_method<lower, upper>},
};

}  // namespace

MethodFunction find_string_method(std::string_view name) {
  const auto found = std::find_if(std::begin(kMethods), std::end(kMethods),
                                  [&](const Method& method) { return method.name == name; });
  return found != std::end(kMethods) ? found->call : nullptr;
}

Result<Value> strip(Run& run, const StringData& data, Side side, const std::string* characters) {
  const std::string_view text = data.text;
  const size_t steps_each = characters != nullptr ? 1 + characters->size() / 64 : 0;
  RETURN_IF_ERROR(run.step(1 + text.size() / 64));
  size_t begin = 0, end = text.size();
  const auto strips = [&](std::string_view character) {
    return characters == nullptr ? is_python_space(decode_utf8(character).code_point)
                                 : characters->find(character) != kNowhere;
  };
  while (side != Side::kRight && begin < end) {
    RETURN_IF_ERROR(run.step(steps_each));
    const size_t length = decode_utf8(text.substr(begin)).length;
    if (!strips(text.substr(begin, length))) break;
    begin += length;
  }
  while (side != Side::kLeft && end > begin) {
    RETURN_IF_ERROR(run.step(steps_each));
    size_t at = end - 1;
    while (at > begin && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
    if (!strips(text.substr(at, end - at))) break;
    end = at;
  }
  if (begin == 0 && end == text.size()) return Value::string(data);
  return run.string(part_of(data, begin, end));
}

Result<Value> replace(Run& run, const StringData& data, const StringData& from, const StringData& to,
                      int64_t count) {
  TextBuilder out;
  size_t done = 0, at = 0;
  for (int64_t i = 0; count < 0 || i < count; ++i) {
    RETURN_IF_ERROR(run.step());
    // An empty pattern matches before every character and at the end.
    if (from.text.empty() && i > 0) {
      if (at >= data.text.size()) break;
      at += decode_utf8(std::string_view(data.text).substr(at)).length;
    } else if (!from.text.empty()) {
      at = find_text(data.text, from.text, done);
    }
    if (at == kNowhere) break;
    RETURN_IF_ERROR(run.charge(at - done + to.text.size()));
    out.append_part(data, done, at);
    out.append(to);
    done = at + from.text.size();
  }
  out.append_part(data, done, data.text.size());
  return run.string(out.take());
}

Result<Value> mapped(Run& run, const StringData& source, std::string text) {
  return run.string(std::move(text), origin_of(source));
}

}  // namespace penstock::jinja
