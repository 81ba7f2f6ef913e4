// LaneProbe: measures what puts to a peer really reach, against memcpy, before a node says it is ready.
//
// UCX never rejects a setting it does not know, and falls back to slow lanes silently; only a measurement
// finds that. Driven by the UCX thread; posts at most one probe's worth of puts per connection at a time.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "fabric/transport.h"

namespace penstock {

struct LaneProbeResult {
  PeerId peer;
  Status status;  // a failed probe: the figures below are 0
  LaneReport lanes;
  double put_gbps = 0;     // 10^9 bytes a second, first post to flush complete
  double memcpy_gbps = 0;  // same bytes, same process, within the same second
  std::string warning;     // empty, or what is slow and the remedy
};

// The text of the warning for such a measurement; empty when there is nothing to warn about.
std::string slow_lane_warning(const LaneReport& lanes, double put_gbps, double memcpy_gbps);

class LaneProbe {
 public:
  static constexpr size_t kBytes = 8u << 20;

  // `local`: kBytes of the transport's own memory, also offered to peers as their probe target, so that
  // nothing else may use it. `clock` is read around the puts: probing is the one timing in this room.
  LaneProbe(Transport& transport, const Clock& clock, LocalMemory local);

  // The peer's LaneProbe memory comes from its hello. Errors as import_memory(), kInvalidArgument for memory
  // that is too small or a second probe under way; what fails later is a result with that status.
  Status start(PeerId peer, const MemoryDescriptor& target);
  std::vector<LaneProbeResult> take_results();

 private:
  struct Run {
    RemoteMemoryId target;
    TimePoint started;
    int repetition = 0;
    double best_gbps = 0;
  };
  void post(PeerId peer, Run& run);
  void finished(PeerId peer, const Status& status);

  Transport& transport_;
  const Clock& clock_;
  LocalMemory local_;
  std::map<PeerId, Run> runs_;
  std::vector<LaneProbeResult> results_;
};

}  // namespace penstock
