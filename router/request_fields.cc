#include "router/request_fields.h"

#include <algorithm>
#include <cmath>

#include "router/http_text.h"

namespace penstock::router {
namespace {

// Objects with more members than this are refused: each look-up walks them.
constexpr size_t kMembersMax = 1024;

}  // namespace

std::string_view json_type_name(JsonElement element) {
  switch (element.type()) {
    case simdjson::dom::element_type::ARRAY:
      return "a list";
    case simdjson::dom::element_type::OBJECT:
      return "an object";
    case simdjson::dom::element_type::INT64:
    case simdjson::dom::element_type::UINT64:
    case simdjson::dom::element_type::DOUBLE:
      return "a number";
    case simdjson::dom::element_type::STRING:
      return "a string";
    case simdjson::dom::element_type::BOOL:
      return "a boolean";
    case simdjson::dom::element_type::NULL_VALUE:
      return "null";
  }
  return "something else";
}

bool is_valid_text(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

RequestFields::RequestFields(simdjson::dom::object object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {
  if (object.size() > kMembersMax)
    refuse(broken_body("An object in the body has more than " + std::to_string(kMembersMax) + " members."));
}

std::optional<JsonElement> RequestFields::any(std::string_view name) {
  asked_.push_back(name);
  std::optional<JsonElement> found;
  for (const auto [key, value] : object_) {
    if (key == name) found = value;  // a repeated member: the last one counts
  }
  if (found && found->is_null()) return std::nullopt;
  return found;
}

std::string RequestFields::unread() const {
  constexpr size_t kNamesShown = 8;
  std::string names;
  size_t count = 0;
  for (const auto [key, value] : object_) {
    if (std::find(asked_.begin(), asked_.end(), key) != asked_.end()) continue;
    if (++count > kNamesShown) return names + " ...";
    names += (names.empty() ? "" : ",") + (is_header_text(key) ? std::string(key) : "?");
  }
  return names;
}

std::optional<bool> RequestFields::boolean(std::string_view name) {
  const auto element = any(name);
  if (!element) return std::nullopt;
  bool value = false;
  if (element->get(value) == simdjson::SUCCESS) return value;
  refuse_type(name, "a boolean", *element);
  return std::nullopt;
}

std::optional<int64_t> RequestFields::integer(std::string_view name, int64_t min, int64_t max) {
  const auto element = any(name);
  if (!element) return std::nullopt;
  int64_t value = 0;
  double real = 0;
  constexpr double kExact = 9007199254740992.0;  // 2^53: whole doubles up to here are exact
  if (element->type() == simdjson::dom::element_type::DOUBLE && element->get(real) == simdjson::SUCCESS &&
      real == std::trunc(real) && std::abs(real) <= kExact) {
    value = static_cast<int64_t>(real);
  } else if (element->get(value) != simdjson::SUCCESS) {
    if (element->is_number()) {
      refuse(name, full_name(name) + " must be an integer from " + std::to_string(min) + " to " +
                       std::to_string(max) + ".");
    } else {
      refuse_type(name, "an integer", *element);
    }
    return std::nullopt;
  }
  if (value < min || value > max) {
    refuse(name, full_name(name) + " must be from " + std::to_string(min) + " to " + std::to_string(max) +
                     ", not " + std::to_string(value) + ".");
    return std::nullopt;
  }
  return value;
}

std::optional<double> RequestFields::number(std::string_view name) {
  const auto element = any(name);
  if (!element) return std::nullopt;
  double value = 0;
  if (element->get(value) == simdjson::SUCCESS) return value;
  refuse_type(name, "a number", *element);
  return std::nullopt;
}

std::optional<std::string> RequestFields::text(std::string_view name) {
  const auto element = any(name);
  if (!element) return std::nullopt;
  std::string_view value;
  if (element->get(value) != simdjson::SUCCESS) {
    refuse_type(name, "a string", *element);
    return std::nullopt;
  }
  if (!is_valid_text(value)) {
    refuse(name, full_name(name) + " contains a lone surrogate, which is no text.");
    return std::nullopt;
  }
  return std::string(value);
}

std::optional<simdjson::dom::object> RequestFields::object(std::string_view name) {
  const auto element = any(name);
  if (!element) return std::nullopt;
  simdjson::dom::object value;
  if (element->get(value) == simdjson::SUCCESS) return value;
  refuse_type(name, "an object", *element);
  return std::nullopt;
}

void RequestFields::refuse(ApiError error) {
  if (!error_) error_ = std::move(error);
}

void RequestFields::refuse(std::string_view name, const std::string& message) {
  refuse(bad_field(full_name(name), message));
}

void RequestFields::refuse_type(std::string_view name, std::string_view wanted, JsonElement found) {
  refuse(name, full_name(name) + " must be " + std::string(wanted) + ", not " +
                   std::string(json_type_name(found)) + ".");
}

}  // namespace penstock::router
