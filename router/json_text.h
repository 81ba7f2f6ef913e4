// JSON that we write: members in the order they are added, never throwing on odd bytes.
//
// Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace penstock::router {

using Json = nlohmann::ordered_json;

// Compact text. Ill-formed UTF-8 (raw token bytes, for instance) becomes U+FFFD instead of an exception.
inline std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace penstock::router
