// What is wrong with a body that simdjson refused, and where: line, column and the field it stands in.
//
// A pure function; it reads the body a second time, which only broken requests pay for.
#pragma once

#include <string>

#include "router/api_error.h"

namespace penstock::router {

// `reason`: simdjson's words, for what only simdjson minds (nesting, say).
ApiError json_fault(const std::string& body, const std::string& reason);

}  // namespace penstock::router
