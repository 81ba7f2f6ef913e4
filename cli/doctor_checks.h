// What `penstock doctor` looks at, one function a subject. Each gives findings with the remedy; none changes
// anything.
#pragma once

#include <string>
#include <vector>

#include "topology/cluster_config.h"

namespace penstock::cli {

enum class Severity { kOk, kWarning, kFatal };

struct Finding {
  Severity severity = Severity::kOk;
  std::string subject;  // "cpu", "kv lanes" ...
  std::string what;
  std::string remedy = {};  // empty when there is nothing to do
};

[[nodiscard]] std::vector<Finding> check_cpu();
[[nodiscard]] std::vector<Finding> check_memory(const ClusterConfig& config);
[[nodiscard]] std::vector<Finding> check_fabric(const ClusterConfig& config);
[[nodiscard]] std::vector<Finding> check_packages();
[[nodiscard]] std::vector<Finding> check_ports(const ClusterConfig& config);
[[nodiscard]] std::vector<Finding> check_model(const ClusterConfig& config);

// "ok       cpu        ...", the remedy on a line of its own.
[[nodiscard]] std::string format_finding(const Finding& finding);

// For tests: the flags of the first CPU in the text of /proc/cpuinfo that the kernels care for, and its name.
struct CpuInfo {
  std::string model;
  std::vector<std::string> features;
};
[[nodiscard]] CpuInfo parse_cpuinfo(const std::string& text);

}  // namespace penstock::cli
