// Feeds a router's record (`penstock router --record`) to a fresh cluster scheduler and compares what it
// does.
//
// Pure: same record, same answer. DESIGN 2's bridge between production and simulation.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace penstock::sim {

struct ReplayReport {
  uint64_t events = 0;   // replayed
  uint64_t checked = 0;  // of them, those that a mark of the record covers
  uint64_t action_hash = 0;
  // Empty: the actions are the recorded ones. Else the first event that went another way, with its place, and
  // what it causes now.
  std::string difference;
};

// Errors: kCorrupt with the offset, and how many events before it were replayed. A record whose writer was
// killed is whole up to its last complete event.
[[nodiscard]] Result<ReplayReport> replay_record(std::span<const uint8_t> record);

}  // namespace penstock::sim
