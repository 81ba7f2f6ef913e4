// Whether an address can be listened on, and the next one that can. Plain functions; a port that is free now
// may be taken a moment later, so the process that binds it must still report a clear error.
#pragma once

#include <set>

#include "base/result.h"
#include "topology/cluster_config.h"

namespace penstock::cli {

// kUnavailable with the system's reason when it cannot be bound.
[[nodiscard]] Status check_port_free(const HostPort& address);

// `address` if it is free, else the next port of the same host that is, up to 200 further; `avoid` are taken
// already. Port 0 becomes one that the system chooses.
[[nodiscard]] Result<HostPort> next_free_port(HostPort address, const std::set<uint16_t>& avoid = {});

}  // namespace penstock::cli
