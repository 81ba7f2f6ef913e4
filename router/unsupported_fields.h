// The fields that clients know and this version does not carry out: any value but a neutral one is refused by
// name, so that no one believes it was heeded.
//
// Pure functions.
#pragma once

#include "router/request_fields.h"

namespace penstock::router {

enum class Endpoint : uint8_t { kChat, kCompletions };

// Sets fields.error() for the first such field that asks for something.
void refuse_unsupported(RequestFields& fields, Endpoint endpoint);

}  // namespace penstock::router
