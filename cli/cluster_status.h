// What the router's admin listener says of the cluster (GET /admin/status), as values. Plain functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "topology/cluster_config.h"

namespace penstock::cli {

struct NodeStatus {
  std::string name, role, state;  // state: joining, ready or draining
  int64_t pid = 0;
  int64_t running = 0, waiting = 0;
  int64_t kv_blocks_used = 0, kv_blocks_total = 0, kv_blocks_leased = 0, kv_blocks_quarantined = 0;
};

struct PairStatus {
  std::string prefill, decode, lanes;
  double put_gbps = 0, memcpy_gbps = 0;
};

struct HandoffStatus {
  std::string response_id, prefill, decode;
  bool done = false;
  int64_t bytes = 0, transfer_us = 0, reserve_to_ack_us = 0;
  double gbps = 0;
};

struct ClusterStatus {
  std::string cluster, model;
  bool ready = false, draining = false;
  int64_t requests_running = 0, finished = 0, rejected = 0, failed = 0, replays = 0;
  std::vector<NodeStatus> nodes;
  std::vector<PairStatus> pairs;
  std::vector<HandoffStatus> handoffs;  // newest first
};

// kCorrupt when it is not that document; keys that are absent keep their defaults.
[[nodiscard]] Result<ClusterStatus> parse_cluster_status(std::string_view json);
[[nodiscard]] Result<ClusterStatus> fetch_cluster_status(const HostPort& admin, Duration silence_max);

// For a terminal: one line a node, pair and handoff.
[[nodiscard]] std::string format_cluster_status(const ClusterStatus& status);

}  // namespace penstock::cli
