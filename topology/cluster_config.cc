#include "topology/cluster_config.h"

#include <unistd.h>

#include <charconv>

#include "topology/cluster_config_fields.h"

namespace penstock {

using config_internal::Field;

std::string print_cluster_config(const ClusterConfig& config) {
  ClusterConfig copy = config;  // fields point to mutable values
  std::string out, section;
  for (const Field& field : config_internal::cluster_fields(copy)) {
    if (field.section != section) {
      out += (section.empty() ? "[" : "\n[") + field.section + "]\n";
      section = field.section;
    }
    out += field.key + " = " + config_internal::toml_value(field) + "\n";
  }
  for (NodeConfig& node : copy.nodes) {
    out += "\n[[node]]\n";
    for (const Field& field : config_internal::node_fields(node))
      out += field.key + " = " + config_internal::toml_value(field) + "\n";
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> process_environment() {
  std::vector<std::pair<std::string, std::string>> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view line = *entry;
    const size_t equals = line.find('=');
    if (equals != std::string_view::npos)
      out.emplace_back(std::string(line.substr(0, equals)), std::string(line.substr(equals + 1)));
  }
  return out;
}

Result<HostPort> parse_host_port(std::string_view text) {
  const Failure wrong = fail(Error::kInvalidArgument, "needs HOST:PORT, such as 127.0.0.1:8000");
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return wrong;
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return wrong;
  }
  HostPort out{std::string(host), 0};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (error != std::errc() || end != port.data() + port.size() || port.empty()) return wrong;
  return out;
}

std::string HostPort::text() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<NodeRole> parse_node_role(std::string_view name) {
  if (name == "prefill") return NodeRole::kPrefill;
  if (name == "decode") return NodeRole::kDecode;
  return fail(Error::kInvalidArgument, "role \"" + std::string(name) + "\": use prefill or decode");
}
std::string_view node_role_name(NodeRole role) { return role == NodeRole::kPrefill ? "prefill" : "decode"; }
std::string_view disaggregate_name(Disaggregate value) {
  return value == Disaggregate::kAuto ? "auto" : value == Disaggregate::kAlways ? "always" : "never";
}
std::string_view weight_dtype_name(WeightDtype dtype) { return dtype == WeightDtype::kBf16 ? "bf16" : "f32"; }

const NodeConfig* ClusterConfig::find_node(std::string_view name) const {
  for (const NodeConfig& node : nodes)
    if (node.name == name) return &node;
  return nullptr;
}
int64_t ClusterConfig::threads_of(const NodeConfig& node) const {
  return node.threads > 0 ? node.threads : engine.threads;
}
int64_t ClusterConfig::kv_pool_bytes_of(const NodeConfig& node) const {
  return (node.kv_pool_mb > 0 ? node.kv_pool_mb : engine.kv_pool_mb) << 20;
}
std::string ClusterConfig::served_model_name() const {
  if (!model.name.empty()) return model.name;
  std::string_view path = model.path;
  while (!path.empty() && path.back() == '/') path.remove_suffix(1);
  return std::string(path.substr(path.rfind('/') + 1));
}

}  // namespace penstock
