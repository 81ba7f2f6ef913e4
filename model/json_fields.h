// Typed access to the fields of a JSON object, with errors that name the place and the field.
//
// Private to the room. A JsonFields refers to a parsed object that must outlive it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace penstock {

// Exceptions of the parser end here: a syntax error is kCorrupt, with the byte where it was found.
[[nodiscard]] Result<nlohmann::ordered_json> parse_json_object(std::string_view text,
                                                               const std::string& where);

class JsonFields {
 public:
  JsonFields(const nlohmann::ordered_json& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  // The field, or nullptr when it is missing or null.
  const nlohmann::ordered_json* find(const char* key) const;
  // `fallback` stands in for a missing or null field; without one that is an error.
  Result<int64_t> integer(const char* key, int64_t low, int64_t high,
                          std::optional<int64_t> fallback = std::nullopt) const;
  Result<double> number(const char* key, std::optional<double> fallback = std::nullopt) const;
  Result<bool> boolean(const char* key, bool fallback) const;
  Result<std::string> string(const char* key, std::optional<std::string> fallback = std::nullopt) const;

  Failure wrong(const char* key, std::string_view wanted) const;
  const std::string& where() const { return where_; }

 private:
  Failure missing(const char* key) const;
  const nlohmann::ordered_json& object_;
  std::string where_;
};

}  // namespace penstock
