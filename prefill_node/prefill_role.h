// The prefill role as node/ takes it.
#pragma once

#include "node/node.h"

namespace penstock {

RoleParts prefill_role();

}  // namespace penstock
