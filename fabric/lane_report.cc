#include "fabric/lane_report.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace penstock {
namespace {

// "#   lane[0]:  2:posix/memory.0 md[1] -> md[1]/posix/sysdev[255] rma_bw#0 am am_bw#0": the transport stands
// before the first '/', the uses behind the remote part.
struct Lane {
  std::string transport;
  std::vector<std::string> uses;
};

bool parse_lane(const std::string& line, Lane& lane) {
  const size_t start = line.find("lane[");
  const size_t colon = start == std::string::npos ? start : line.find("]:", start);
  if (colon == std::string::npos) return false;
  std::istringstream words(line.substr(colon + 2));
  std::string device;
  words >> device;
  if (const size_t index = device.find(':'); index != std::string::npos) device.erase(0, index + 1);
  lane.transport = device.substr(0, device.find('/'));
  for (std::string word; words >> word;) lane.uses.push_back(word);
  return !lane.transport.empty();
}

bool used_for(const Lane& lane, const std::string& use) {
  return std::any_of(lane.uses.begin(), lane.uses.end(), [&](const std::string& word) {
    return word == use || word.starts_with(use + "#") || word.starts_with(use + "_bw");
  });
}

void add_once(std::string& list, const std::string& name) {
  if (("," + list + ",").find("," + name + ",") != std::string::npos) return;
  list += (list.empty() ? "" : ",") + name;
}

bool maps_memory(const std::string& transport) {
  return transport == "posix" || transport == "sysv" || transport == "xpmem" || transport == "cma" ||
         transport == "knem";
}

}  // namespace

LaneReport parse_lane_report(std::string_view ep_info) {
  LaneReport report;
  bool maps = false;
  std::istringstream lines{std::string(ep_info)};
  for (std::string line; std::getline(lines, line);) {
    Lane lane;
    if (!parse_lane(line, lane)) continue;
    maps |= maps_memory(lane.transport);
    if (used_for(lane, "rma")) add_once(report.put, lane.transport);
    if (used_for(lane, "am")) add_once(report.message, lane.transport);
  }
  // No lane of its own for puts: they are emulated over messages (tcp).
  if (report.put.empty()) report.put = report.message;
  report.shared_memory = report.put.empty() || maps;
  return report;
}

}  // namespace penstock
