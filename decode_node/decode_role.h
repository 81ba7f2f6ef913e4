// The decode role as node/ takes it.
#pragma once

#include "node/node.h"

namespace penstock {

RoleParts decode_role();

}  // namespace penstock
