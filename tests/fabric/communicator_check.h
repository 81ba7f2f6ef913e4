// What every backend's tests run on every rank: each operation against a plain computation.
#pragma once

#include <cstdint>
#include <string>

#include "fabric/communicator_world.h"

namespace penstock {

// Every operation at this count and type on `group`; empty when right, else what was wrong.
std::string check_operations(Communicator& group, int64_t count, ElementType type);

}  // namespace penstock
