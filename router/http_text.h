// Bytes of HTTP answers.
//
// Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "router/http_types.h"

namespace penstock::router {

std::string response_text(const HttpResponse& response, bool keep_alive, bool head_only);
std::string stream_head_text(const std::string& content_type, const HttpHeaders& headers, bool keep_alive,
                             bool chunked);
std::string chunk_text(std::string_view data);  // data must not be empty
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// What may go into a header unchanged: printable ASCII, not too long.
bool is_header_text(std::string_view text);

}  // namespace penstock::router
