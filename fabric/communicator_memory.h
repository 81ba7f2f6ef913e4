// Ranks as threads of one process, for tests of what stands on a Communicator.
//
// The links share a hub; each belongs to one thread. Destroying a link is the death of its rank.
#pragma once

#include <memory>
#include <vector>

#include "fabric/communicator_point_to_point.h"

namespace penstock {

[[nodiscard]] std::vector<std::unique_ptr<PointToPoint>> make_memory_links(int size);

}  // namespace penstock
