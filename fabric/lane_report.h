// Reads which lanes UCX chose out of the text of ucp_ep_print_info: no version between 1.13 and 1.23 tells it
// in another way that all share. Pure.
#pragma once

#include <string_view>

#include "fabric/transport.h"

namespace penstock {

// Unknown stays empty, and then shared_memory stays true: the safe guess for whoever frees memory.
[[nodiscard]] LaneReport parse_lane_report(std::string_view ep_info);

}  // namespace penstock
