#include "cli/doctor_checks.h"

#include <sys/stat.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include "cli/cluster_status.h"
#include "cli/doctor_fabric.h"
#include "cli/free_port.h"
#include "fabric/memory_limits.h"
#include "kernels/isa.h"

namespace penstock::cli {
namespace {

constexpr const char* kDefaultTransports = "posix,tcp,self";
// What makes the CPU kernels faster, as /proc/cpuinfo spells it.
constexpr const char* kFeatures[] = {"avx2",        "fma",         "f16c",     "avx512f",  "avx512_vnni",
                                     "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8"};
// Libraries that the binary loads, as Debian 12 names them.
constexpr const char* kPackages[] = {"libucx0", "libzmq5", "libspdlog1.10", "libpcre2-8-0", "libsimdjson14"};

std::string gigabytes(double bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f GB", bytes / 1e9);
  return text;
}

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return std::move(out).str();
}

// Output of a command, one word a value; empty when it cannot run.
std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), &::pclose);
  std::string out;
  char piece[256];
  while (pipe != nullptr && std::fgets(piece, sizeof(piece), pipe.get()) != nullptr) out += piece;
  return out;
}

int64_t pool_bytes(const ClusterConfig& config) {
  int64_t bytes = 0;
  for (const NodeConfig& node : config.nodes) bytes += config.kv_pool_bytes_of(node);
  return bytes;
}

}  // namespace

CpuInfo parse_cpuinfo(const std::string& text) {
  CpuInfo info;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || colon + 2 > line.size()) continue;
    const std::string value = line.substr(std::min(colon + 2, line.size()));
    if (line.rfind("model name", 0) == 0 && info.model.empty()) info.model = value;
    if (line.rfind("flags", 0) != 0) continue;
    const std::string padded = " " + value + " ";
    for (const char* feature : kFeatures)
      if (padded.find(" " + std::string(feature) + " ") != std::string::npos)
        info.features.push_back(feature);
    break;
  }
  return info;
}

std::vector<Finding> check_cpu() {
  const CpuInfo info = parse_cpuinfo(read_text("/proc/cpuinfo"));
  std::string features;
  for (const std::string& feature : info.features) features += (features.empty() ? "" : " ") + feature;
  std::vector<Finding> findings = {{Severity::kOk, "cpu",
                                    info.model + ", " + std::to_string(std::thread::hardware_concurrency()) +
                                        " cores: " + (features.empty() ? "no wide instructions" : features)}};
  const auto isa = choose_isa(std::nullopt);
  if (!isa.ok()) {
    findings.push_back({Severity::kFatal, "isa", isa.message(), "unset PENSTOCK_ISA"});
    return findings;
  }
  std::string available;
  for (const Isa level : available_isas())
    available += (available.empty() ? "" : ", ") + std::string(isa_name(level));
  const bool slow = *isa == Isa::kPortable;
  findings.push_back({slow ? Severity::kWarning : Severity::kOk, "isa",
                      "kernels run as " + std::string(isa_name(*isa)) + " (available: " + available + ")",
                      slow ? "expect a tenth of the speed: use a CPU with AVX2, or unset PENSTOCK_ISA" : ""});
  return findings;
}

std::vector<Finding> check_memory(const ClusterConfig& config) {
  const MemoryLimits limits = read_memory_limits();
  const int64_t need = pool_bytes(config);
  const std::string transports =
      config.kv_transfer.transports.empty() ? kDefaultTransports : config.kv_transfer.transports;
  const Status checked = check_memory_limits(limits, transports, static_cast<size_t>(need));
  std::vector<Finding> findings;
  if (checked.ok()) {
    findings.push_back({Severity::kOk, "shared memory",
                        gigabytes(static_cast<double>(limits.shm_free)) +
                            " free in /dev/shm, KV pools need " + gigabytes(static_cast<double>(need))});
  } else {
    findings.push_back({Severity::kFatal, "shared memory", checked.message()});
  }
  const bool unlimited = limits.locked_memory == ~uint64_t{0};
  const std::string limit = unlimited ? "unlimited" : gigabytes(static_cast<double>(limits.locked_memory));
  findings.push_back({Severity::kOk, "locked memory",
                      "limit " + limit +
                          (limits.rdma_present ? "; an RDMA device is present and pins the pools"
                                               : "; no RDMA device, so nothing is pinned")});
  struct sysinfo memory {};
  ::sysinfo(&memory);
  findings.push_back(
      {Severity::kOk, "memory",
       gigabytes(static_cast<double>(memory.totalram) * memory.mem_unit) + " in this machine"});
  return findings;
}

std::vector<Finding> check_fabric(const ClusterConfig& config) {
  const auto measured = measure_fabric(config.kv_transfer.transports);
  if (!measured.ok())
    return {{Severity::kFatal, "kv lanes", measured.message(),
             "check UCX_TLS and kv_transfer.transports; ucx_info -d lists what UCX can use here"}};
  const LaneProbeResult& probe = measured->probe;
  char speeds[128];
  std::snprintf(speeds, sizeof(speeds), "puts %.1f GB/s, memcpy %.1f GB/s", probe.put_gbps,
                probe.memcpy_gbps);
  const std::string lanes = "puts over " + (probe.lanes.put.empty() ? "unknown" : probe.lanes.put) +
                            ", messages over " +
                            (probe.lanes.message.empty() ? "unknown" : probe.lanes.message);
  return {{Severity::kOk, "ucx", measured->library + ", UCX_TLS=" + measured->transports},
          {probe.warning.empty() ? Severity::kOk : Severity::kWarning, "kv lanes", lanes + ": " + speeds,
           probe.warning}};
}

std::vector<Finding> check_packages() {
  std::string found, missing;
  for (const char* package : kPackages) {
    const std::string version =
        output_of(std::string("dpkg-query -W -f='${Version}' ") + package + " 2>/dev/null");
    (version.empty() ? missing : found) +=
        std::string(" ") + package + (version.empty() ? "" : "=" + version);
  }
  if (found.empty())
    return {{Severity::kOk, "packages", "no Debian packages here; the libraries are loaded, as this runs"}};
  if (missing.empty()) return {{Severity::kOk, "packages", found.substr(1)}};
  return {{Severity::kWarning, "packages", "not from Debian packages:" + missing + "; found:" + found,
           "on Debian 12, ./penstock.sh installs them"}};
}

std::vector<Finding> check_ports(const ClusterConfig& config) {
  const std::pair<const char*, const std::string*> addresses[] = {{"router.listen", &config.router.listen},
                                                                  {"router.control", &config.router.control},
                                                                  {"router.admin", &config.router.admin}};
  const auto running = fetch_cluster_status(*parse_host_port(config.router.admin), Duration::from_ms(500));
  std::vector<Finding> findings;
  for (const auto& [key, address] : addresses) {
    const Status free = check_port_free(*parse_host_port(*address));
    if (free.ok()) {
      findings.push_back({Severity::kOk, "ports", std::string(key) + " " + *address + " is free"});
    } else if (running.ok()) {
      findings.push_back({Severity::kOk, "ports",
                          std::string(key) + " " + *address + " is in use; cluster " + running->cluster +
                              " is running there"});
    } else {
      findings.push_back({Severity::kFatal, "ports", std::string(key) + " " + free.message(),
                          std::string("stop what listens there, or set ") + key + " to another port"});
    }
  }
  return findings;
}

std::vector<Finding> check_model(const ClusterConfig& config) {
  if (config.model.path.empty())
    return {
        {Severity::kOk, "model", "model.path is not set: name a cluster file with -c to have it checked"}};
  struct stat found {};
  if (::stat((config.model.path + "/config.json").c_str(), &found) == 0)
    return {{Severity::kOk, "model", config.model.path}};
  return {{Severity::kFatal, "model", config.model.path + " has no config.json",
           "set model.path to a Hugging Face folder, such as `penstock import` writes"}};
}

std::string format_finding(const Finding& finding) {
  const char* severity = finding.severity == Severity::kOk        ? "ok"
                         : finding.severity == Severity::kWarning ? "warning"
                                                                  : "FATAL";
  char head[64];
  std::snprintf(head, sizeof(head), "%-8s %-14s ", severity, finding.subject.c_str());
  std::string out = head + finding.what + "\n";
  if (!finding.remedy.empty()) out += std::string(24, ' ') + "-> " + finding.remedy + "\n";
  return out;
}

}  // namespace penstock::cli
