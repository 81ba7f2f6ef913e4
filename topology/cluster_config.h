// ClusterConfig: one TOML file describes a cluster. A plain value; loading it touches no device.
//
// Sources, strongest first: `--set section.key=value`, environment PENSTOCK__SECTION__KEY, the file,
// defaults. A node's own keys are `node.NAME.key` in --set and PENSTOCK__NODE__NAME__KEY in the environment
// (NAME in upper case, every other character than a letter or digit written as `_`). Every key, its default
// and its bounds stand in cluster_config_fields.cc; anything else is an error that names the place and the
// nearest known key.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "topology/kv_layout.h"

namespace penstock {

enum class Disaggregate : uint8_t { kAuto, kAlways, kNever };
enum class NodeRole : uint8_t { kPrefill, kDecode };
enum class WeightDtype : uint8_t { kBf16, kF32 };

[[nodiscard]] Result<NodeRole> parse_node_role(std::string_view name);
[[nodiscard]] std::string_view node_role_name(NodeRole role);
[[nodiscard]] std::string_view disaggregate_name(Disaggregate value);
[[nodiscard]] std::string_view weight_dtype_name(WeightDtype dtype);

// "host:port", "[v6]:port". Port 0: any free one.
struct HostPort {
  std::string host;
  uint16_t port = 0;
  std::string text() const;
  friend bool operator==(const HostPort&, const HostPort&) = default;
};
[[nodiscard]] Result<HostPort> parse_host_port(std::string_view text);

struct NodeConfig {
  std::string name;
  NodeRole role = NodeRole::kDecode;
  int64_t threads = 0;      // 0: engine.threads
  int64_t kv_pool_mb = 0;   // 0: engine.kv_pool_mb
  std::string emulate;      // a name of device_specs.h, or empty
  std::string listen_host;  // address that peers dial; empty: 127.0.0.1
};

struct ClusterConfig {
  struct {
    std::string name = "penstock";
    Disaggregate disaggregate = Disaggregate::kAuto;
  } cluster;
  struct {
    std::string path;  // a Hugging Face folder, as `penstock import` writes it
    std::string name;  // as clients name it; empty: the folder's name
    WeightDtype dtype = WeightDtype::kBf16;
  } model;
  struct {
    std::string listen = "127.0.0.1:8000";   // OpenAI API
    std::string control = "127.0.0.1:8100";  // nodes dial it (ZeroMQ)
    std::string admin = "127.0.0.1:8001";    // /metrics, /admin/status
    std::string api_keys_file;               // one key a line; empty: no keys asked for
    int64_t body_max_mb = 32;
    int64_t requests_max = 1024;  // admitted and unfinished; above it 429
    int64_t drain_timeout_ms = 30000;
    bool metrics_vllm_aliases = false;
  } router;
  struct {
    int64_t threads = 1;
    int64_t kv_pool_mb = 256;
    int64_t block_tokens = 64;
    KvDtype kv_dtype = KvDtype::kBf16;
    int64_t batch_tokens_max = 512;  // token budget of one step
    int64_t sequences_max = 64;      // running at once
    int64_t context_max = 0;         // 0: the model's own limit
    bool batch_invariant = true;     // the only way there is; see bench/RESULTS.md for what it costs
  } engine;
  struct {
    std::string transports;  // UCX_TLS; empty: posix,tcp,self
    int64_t lease_ms = 10000;
    bool digests = true;
  } kv_transfer;
  struct {
    int64_t period_ms = 200;
    int64_t dead_after_ms = 2000;
  } heartbeat;
  struct {
    std::string router_public_key;  // Z85, 40 characters; empty: CURVE off
    std::string router_secret_key_file;
    std::string node_public_key;
    std::string node_secret_key_file;
  } curve;
  struct {
    std::string level = "info";
    std::string dir;  // where `up` keeps its children's logs; empty: a new folder under the temporary one
  } log;
  std::vector<NodeConfig> nodes;

  [[nodiscard]] const NodeConfig* find_node(std::string_view name) const;
  [[nodiscard]] int64_t threads_of(const NodeConfig& node) const;
  [[nodiscard]] int64_t kv_pool_bytes_of(const NodeConfig& node) const;
  // What clients call the model: model.name, or the last part of model.path.
  [[nodiscard]] std::string served_model_name() const;
};

struct ConfigSources {
  std::string file = {};  // empty: defaults alone
  std::vector<std::pair<std::string, std::string>> environment =
      {};                              // all of it; other names are passed over
  std::vector<std::string> sets = {};  // "section.key=value"
};

// The process's environment in the form ConfigSources wants.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> process_environment();

// Errors: kNotFound (no such file), kInvalidArgument with "file:line: what: what to do".
[[nodiscard]] Result<ClusterConfig> load_cluster_config(const ConfigSources& sources);
// The same from text; `name` stands in for the file in messages.
[[nodiscard]] Result<ClusterConfig> parse_cluster_config(std::string_view toml, std::string_view name,
                                                         const ConfigSources& overrides = {});
// As TOML: every key with the value in force. Loading the output gives the same configuration.
[[nodiscard]] std::string print_cluster_config(const ClusterConfig& config);

}  // namespace penstock
