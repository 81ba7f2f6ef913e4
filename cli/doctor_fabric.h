// What the KV lanes of this machine reach: two processes, connected as two nodes would be.
//
// Must be called before this process starts threads: it forks, and UCX is first touched after the fork.
#pragma once

#include <string>

#include "base/result.h"
#include "fabric/lane_probe.h"

namespace penstock::cli {

struct FabricFinding {
  std::string library;     // "ucx 1.13.1"
  std::string transports;  // UCX_TLS in force
  LaneProbeResult probe;
};

// `transports` as kv_transfer.transports; empty: the default. kDeadlineExceeded when the two processes do not
// reach each other within seconds.
[[nodiscard]] Result<FabricFinding> measure_fabric(const std::string& transports);

}  // namespace penstock::cli
