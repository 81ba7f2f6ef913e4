// Reads the members of a JSON object by name and type; the first thing that is wrong is kept as the answer.
//
// One per object, on the stack. Null counts as absent. The parser's document must outlive it.
#pragma once

#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "router/api_error.h"

namespace penstock::router {

using JsonElement = simdjson::dom::element;

// "a number", "a list" ... for messages.
std::string_view json_type_name(JsonElement element);

class RequestFields {
 public:
  // `prefix` leads the names in errors: "stream_options." for a member object.
  explicit RequestFields(simdjson::dom::object object, std::string prefix = "");

  // Nothing when absent, null, or of the wrong type (then error() is set).
  std::optional<JsonElement> any(std::string_view name);
  std::optional<bool> boolean(std::string_view name);
  // Whole numbers; 10.0 counts as 10.
  std::optional<int64_t> integer(std::string_view name, int64_t min, int64_t max);
  std::optional<double> number(std::string_view name);
  std::optional<std::string> text(std::string_view name);
  std::optional<simdjson::dom::object> object(std::string_view name);

  void refuse(ApiError error);  // the first one counts
  void refuse(std::string_view name, const std::string& message);
  const std::optional<ApiError>& error() const { return error_; }
  // Members that were never asked for: the first few names, for a log.
  std::string unread() const;
  std::string full_name(std::string_view name) const { return prefix_ + std::string(name); }

 private:
  void refuse_type(std::string_view name, std::string_view wanted, JsonElement found);

  simdjson::dom::object object_;
  std::string prefix_;
  std::optional<ApiError> error_;
  std::vector<std::string_view> asked_;
};

// False for text that is not UTF-8, which a lone surrogate escape makes.
bool is_valid_text(std::string_view text);

}  // namespace penstock::router
