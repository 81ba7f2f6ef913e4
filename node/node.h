// run_node: one serving process, from its configuration to its end.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/log.h"
#include "node/engine_side.h"
#include "node/transfer_side.h"
#include "topology/cluster_config.h"

namespace penstock {

// What a role brings; prefill_node/ and decode_node/ each have one.
struct RoleParts {
  NodeRole role = NodeRole::kDecode;
  std::function<std::unique_ptr<EngineSide>(NodePorts&)> make_engine_side;
  TransferSideFactory make_transfer_side;
};

// Blocks SIGTERM and SIGINT in the calling thread and those it starts, and takes them from a signalfd.
// Returns after a drain, or with what stopped the node: model missing, pool too large for /dev/shm, router's
// refusal.
[[nodiscard]] Status run_node(const ClusterConfig& config, const NodeConfig& node, const RoleParts& role,
                              const Logger& log);

}  // namespace penstock
