// Bytes of cluster events and actions: for records (`router --record`), replays and the action hash.
//
// Pure functions and one small value. Little-endian, fixed width; strings and messages carry a 32-bit length,
// at most kTextMax. A record is a header (magic, format, policy) followed by timed events; each is
//   u32 bytes that follow | i64 now in us | u8 kind (index in the variant) | fields in the order of the
//   struct
// Decoders trust nothing: a short, overlong or unknown item is kCorrupt with its offset, and nothing is
// allocated beyond the bytes that are there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "scheduler/cluster/cluster_events.h"
#include "scheduler/cluster/cluster_scheduler.h"

namespace penstock::scheduler {

constexpr uint32_t kTextMax = 4096;  // bytes of one string; longer ones are cut when encoded

struct TimedEvent {
  TimePoint now;
  ClusterEvent event;
};

// Each encoder appends to `out`.
void encode_record_header(const ClusterPolicy& policy, std::vector<uint8_t>& out);
void encode_event(TimePoint now, const ClusterEvent& event, std::vector<uint8_t>& out);
void encode_action(const ClusterAction& action, std::vector<uint8_t>& out);

// Reads a record from memory; the bytes must outlive it.
class RecordReader {
 public:
  explicit RecordReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  [[nodiscard]] Result<ClusterPolicy> read_header();  // first, once
  bool at_end() const { return offset_ == bytes_.size(); }
  [[nodiscard]] Result<TimedEvent> read_event();

 private:
  std::span<const uint8_t> bytes_;
  size_t offset_ = 0;
};

// One action from the front of `bytes`, all of which it must fill.
[[nodiscard]] Result<ClusterAction> decode_action(std::span<const uint8_t> bytes);

// A 64-bit digest of every action so far, with the times of their steps. Equal runs have equal hashes on
// every platform; it is no cryptographic hash.
class ActionHash {
 public:
  void add(TimePoint now, const ClusterActions& actions);
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0;
  std::vector<uint8_t> scratch_;
};

}  // namespace penstock::scheduler
