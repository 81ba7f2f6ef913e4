#include "cli/cluster_status.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/http_client.h"

namespace penstock::cli {
namespace {

using Json = nlohmann::json;

NodeStatus node_from(const Json& json) {
  NodeStatus node;
  node.name = json.value("name", "");
  node.role = json.value("role", "");
  node.state = json.value("state", "");
  node.pid = json.value("pid", int64_t{0});
  node.running = json.value("running", int64_t{0});
  node.waiting = json.value("waiting", int64_t{0});
  node.kv_blocks_used = json.value("kv_blocks_used", int64_t{0});
  node.kv_blocks_total = json.value("kv_blocks_total", int64_t{0});
  node.kv_blocks_leased = json.value("kv_blocks_leased", int64_t{0});
  node.kv_blocks_quarantined = json.value("kv_blocks_quarantined", int64_t{0});
  return node;
}

PairStatus pair_from(const Json& json) {
  return {json.value("prefill", ""), json.value("decode", ""), json.value("lanes", ""),
          json.value("put_gbps", 0.0), json.value("memcpy_gbps", 0.0)};
}

HandoffStatus handoff_from(const Json& json) {
  return {json.value("response_id", ""),
          json.value("prefill", ""),
          json.value("decode", ""),
          json.value("done", false),
          json.value("bytes", int64_t{0}),
          json.value("transfer_us", int64_t{0}),
          json.value("reserve_to_ack_us", int64_t{0}),
          json.value("gbps", 0.0)};
}

template <typename... Args>
std::string format(const char* pattern, Args... args) {
  char line[512];
  std::snprintf(line, sizeof(line), pattern, args...);
  return line;
}

}  // namespace

Result<ClusterStatus> parse_cluster_status(std::string_view text) {
  // nlohmann reports a wrong type by exception; it ends here.
  try {
    const Json json = Json::parse(text);
    ClusterStatus status;
    status.cluster = json.at("cluster").get<std::string>();
    status.model = json.value("model", "");
    status.ready = json.value("ready", false);
    status.draining = json.value("draining", false);
    const Json requests = json.value("requests", Json::object());
    status.requests_running = requests.value("running", int64_t{0});
    status.finished = requests.value("finished", int64_t{0});
    status.rejected = requests.value("rejected", int64_t{0});
    status.failed = requests.value("failed", int64_t{0});
    status.replays = requests.value("replays", int64_t{0});
    for (const Json& node : json.value("nodes", Json::array())) status.nodes.push_back(node_from(node));
    for (const Json& pair : json.value("pairs", Json::array())) status.pairs.push_back(pair_from(pair));
    for (const Json& one : json.value("handoffs", Json::array()))
      status.handoffs.push_back(handoff_from(one));
    return status;
  } catch (const Json::exception& error) {
    return fail(Error::kCorrupt,
                std::string("the router's status is not what it should be: ") + error.what());
  }
}

Result<ClusterStatus> fetch_cluster_status(const HostPort& admin, Duration silence_max) {
  ASSIGN_OR_RETURN(const HttpResponse response,
                   http_request({.server = admin, .target = "/admin/status", .silence_max = silence_max}));
  if (response.status != 200)
    return fail(Error::kUnavailable, "GET http://" + admin.text() + "/admin/status: HTTP " +
                                         std::to_string(response.status) + ": is this the admin address?");
  return parse_cluster_status(response.body);
}

std::string format_cluster_status(const ClusterStatus& s) {
  std::string out = "cluster " + s.cluster + ": " +
                    (s.draining ? "draining"
                     : s.ready  ? "ready"
                                : "not ready") +
                    ", model " + s.model + "\n";
  out += format("requests: %lld running, %lld finished, %lld rejected, %lld failed, %lld replays\n",
                static_cast<long long>(s.requests_running), static_cast<long long>(s.finished),
                static_cast<long long>(s.rejected), static_cast<long long>(s.failed),
                static_cast<long long>(s.replays));
  out += format("%-20s %-8s %-9s %8s %8s %8s  %s\n", "NODE", "ROLE", "STATE", "PID", "RUNNING", "WAITING",
                "KV BLOCKS");
  for (const NodeStatus& node : s.nodes) {
    const double share = node.kv_blocks_total == 0 ? 0
                                                   : 100.0 * static_cast<double>(node.kv_blocks_used) /
                                                         static_cast<double>(node.kv_blocks_total);
    out += format(
        "%-20s %-8s %-9s %8lld %8lld %8lld  %lld of %lld used (%.0f %%), %lld leased, %lld quarantined\n",
        node.name.c_str(), node.role.c_str(), node.state.c_str(), static_cast<long long>(node.pid),
        static_cast<long long>(node.running), static_cast<long long>(node.waiting),
        static_cast<long long>(node.kv_blocks_used), static_cast<long long>(node.kv_blocks_total), share,
        static_cast<long long>(node.kv_blocks_leased), static_cast<long long>(node.kv_blocks_quarantined));
  }
  for (const PairStatus& pair : s.pairs)
    out += format("pair %s -> %s: %s, puts %.1f GB/s, memcpy %.1f GB/s\n", pair.prefill.c_str(),
                  pair.decode.c_str(), pair.lanes.c_str(), pair.put_gbps, pair.memcpy_gbps);
  if (!s.handoffs.empty()) {
    const HandoffStatus& last = s.handoffs.front();
    out += format("last handoff: %s -> %s, %.2f MB in %.2f ms (%.1f GB/s), RESERVE to ACK %.2f ms\n",
                  last.prefill.c_str(), last.decode.c_str(), static_cast<double>(last.bytes) / 1e6,
                  static_cast<double>(last.transfer_us) / 1e3, last.gbps,
                  static_cast<double>(last.reserve_to_ack_us) / 1e3);
  }
  return out;
}

}  // namespace penstock::cli
