// What every part of the scheduler says about a sequence: who it is and how it ended.
//
// Plain values, no owner.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <ostream>

#include "base/ids.h"

namespace penstock::scheduler {

// One attempt at one sequence. Two attempts may live on one node at a time (the blocks of the first still
// quarantined while the second runs), so nodes never identify work by SequenceId alone.
struct SequenceKey {
  SequenceId sequence;
  Epoch epoch;
  friend constexpr auto operator<=>(const SequenceKey&, const SequenceKey&) = default;
  friend std::ostream& operator<<(std::ostream& out, const SequenceKey& key) {
    return out << key.sequence << '/' << key.epoch;
  }
};

enum class EndReason : uint8_t {
  kNone,           // not ended
  kStop,           // sampled one of its stop ids, or the router found a stop string
  kLength,         // tokens_max or the context is used up
  kAborted,        // on request: client gone, attempt superseded
  kFailed,         // the engine could not compute it
  kHandedOff,      // prefill node only: COMMIT acknowledged, the sequence goes on elsewhere
  kHandoffFailed,  // the KV handoff ended without COMMIT
};

constexpr const char* end_reason_name(EndReason reason) {
  constexpr const char* kNames[] = {"none",   "stop",       "length",        "aborted",
                                    "failed", "handed_off", "handoff_failed"};
  return kNames[static_cast<int>(reason)];
}

}  // namespace penstock::scheduler

template <>
struct std::hash<penstock::scheduler::SequenceKey> {
  size_t operator()(const penstock::scheduler::SequenceKey& key) const noexcept {
    return std::hash<uint64_t>{}(key.sequence.value() * 0x9e3779b97f4a7c15ULL + key.epoch.value());
  }
};
