// Bytes of cluster events and actions: for records (`router --record`), replays and the action hash.
//
// Pure functions and one small value. Little-endian, fixed width; strings and messages carry a 32-bit length,
// at most kTextMax. A record is a header (magic, format, policy) followed by timed events and marks; each is
//   u32 bytes that follow | i64 now in us | u8 kind | fields in the order of the struct
// The kind of an event is its index in the variant, that of a mark kMarkKind (its time is 0). Decoders trust
// nothing: a short, overlong or unknown item is kCorrupt with its offset, and nothing is allocated beyond the
// bytes that are there.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
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

// Stands after each event that caused actions, and at the end: by it a replay tells damage of the record from
// another decision.
constexpr uint8_t kMarkKind = 0xff;
struct RecordMark {
  uint64_t action_hash = 0;  // ActionHash of every step so far
  uint64_t digest = 0;       // of the record so far, this mark's action_hash included
};

using RecordItem = std::variant<TimedEvent, RecordMark>;

// Each encoder appends to `out`.
void encode_record_header(const ClusterPolicy& policy, std::vector<uint8_t>& out);
void encode_event(TimePoint now, const ClusterEvent& event, std::vector<uint8_t>& out);
void encode_mark(const RecordMark& mark, std::vector<uint8_t>& out);
void encode_action(const ClusterAction& action, std::vector<uint8_t>& out);

// Folds bytes, or the action hash of a mark, into a running digest: equal records, equal digests, on every
// platform. No cryptography.
uint64_t fold_bytes(uint64_t so_far, std::span<const uint8_t> bytes);
uint64_t fold_hash(uint64_t so_far, uint64_t action_hash);

// Reads a record from memory; the bytes must outlive it. After a failure offset() is where it stands.
class RecordReader {
 public:
  explicit RecordReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  [[nodiscard]] Result<ClusterPolicy> read_header();  // first, once
  bool at_end() const { return offset_ == bytes_.size(); }
  // The next event or mark. kCorrupt also when a mark's digest is not that of what stands before it.
  [[nodiscard]] Result<RecordItem> read_item();
  // The next item, which must be an event.
  [[nodiscard]] Result<TimedEvent> read_event();
  size_t offset() const { return offset_; }  // of the next item

 private:
  std::span<const uint8_t> bytes_;
  size_t offset_ = 0;
  size_t checked_ = 0;  // the last mark, or the header, ended here
  uint64_t digest_ = 0;
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
