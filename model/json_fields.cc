#include "model/json_fields.h"

namespace penstock {

Result<nlohmann::ordered_json> parse_json_object(std::string_view text, const std::string& where) {
  try {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(text);
    if (!json.is_object()) return fail(Error::kCorrupt, where + ": expected a JSON object");
    return json;
  } catch (const nlohmann::json::parse_error& error) {
    return fail(Error::kCorrupt, where + ": not valid JSON at byte " + std::to_string(error.byte));
  } catch (const nlohmann::json::exception& error) {
    return fail(Error::kCorrupt, where + ": " + error.what());
  }
}

const nlohmann::ordered_json* JsonFields::find(const char* key) const {
  const auto it = object_.find(key);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

Failure JsonFields::missing(const char* key) const {
  return fail(Error::kCorrupt, where_ + ": the field \"" + key + "\" is missing");
}

Failure JsonFields::wrong(const char* key, std::string_view wanted) const {
  std::string value = object_[key].dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (value.size() > 60) value = value.substr(0, 57) + "...";
  return fail(Error::kCorrupt,
              where_ + ": \"" + key + "\" must be " + std::string(wanted) + ", not " + value);
}

Result<int64_t> JsonFields::integer(const char* key, int64_t low, int64_t high,
                                    std::optional<int64_t> fallback) const {
  const auto* field = find(key);
  if (field == nullptr) return fallback ? Result<int64_t>(*fallback) : missing(key);
  const std::string range = "an integer from " + std::to_string(low) + " to " + std::to_string(high);
  // An unsigned value above int64's range would turn negative in get<int64_t>().
  if (!field->is_number_integer() ||
      (field->is_number_unsigned() && field->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))) {
    return wrong(key, range);
  }
  const int64_t value = field->get<int64_t>();
  if (value < low || value > high) return wrong(key, range);
  return value;
}

Result<double> JsonFields::number(const char* key, std::optional<double> fallback) const {
  const auto* field = find(key);
  if (field == nullptr) return fallback ? Result<double>(*fallback) : missing(key);
  if (!field->is_number()) return wrong(key, "a number");
  return field->get<double>();
}

Result<bool> JsonFields::boolean(const char* key, bool fallback) const {
  const auto* field = find(key);
  if (field == nullptr) return fallback;
  if (!field->is_boolean()) return wrong(key, "true or false");
  return field->get<bool>();
}

Result<std::string> JsonFields::string(const char* key, std::optional<std::string> fallback) const {
  const auto* field = find(key);
  if (field == nullptr) return fallback ? Result<std::string>(*std::move(fallback)) : missing(key);
  if (!field->is_string()) return wrong(key, "a string");
  return field->get<std::string>();
}

}  // namespace penstock
