// The fields that shape a generation, read and validated one by one; errors stay in `fields`.
//
// Pure functions; used by parse_request.
#pragma once

#include "router/request.h"
#include "router/request_fields.h"

namespace penstock::router {

void read_chat_options(RequestFields& fields, GenerationOptions& options);
void read_completion_options(RequestFields& fields, GenerationOptions& options);

}  // namespace penstock::router
