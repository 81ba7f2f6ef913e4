// Writes a record as the router's run goes on: header, events, and a mark after each that caused actions.
//
// A value of whoever drives the scheduler; the bytes go to a buffer of the caller's, who may empty it between
// calls. cluster_codec.h has the format and the reader.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/cluster/cluster_codec.h"

namespace penstock::scheduler {

class RecordWriter {
 public:
  // First, once.
  void begin(const ClusterPolicy& policy, std::vector<uint8_t>& out) {
    const size_t start = out.size();
    encode_record_header(policy, out);
    digest_ = fold_bytes(0, std::span<const uint8_t>(out).subspan(start));
  }
  // Before the step, so that an event which brings the process down can be in the record.
  void add_event(TimePoint now, const ClusterEvent& event, std::vector<uint8_t>& out) {
    const size_t start = out.size();
    encode_event(now, event, out);
    digest_ = fold_bytes(digest_, std::span<const uint8_t>(out).subspan(start));
    ++events_;
  }
  // After the step.
  void add_actions(TimePoint now, const ClusterActions& actions, std::vector<uint8_t>& out) {
    if (actions.empty()) return;
    hash_.add(now, actions);
    end(out);
  }
  // Last, so that what caused no actions is covered too.
  void end(std::vector<uint8_t>& out) {
    digest_ = fold_hash(digest_, hash_.value());
    encode_mark({hash_.value(), digest_}, out);
  }

  uint64_t events() const { return events_; }
  uint64_t action_hash() const { return hash_.value(); }

 private:
  ActionHash hash_;
  uint64_t digest_ = 0, events_ = 0;
};

}  // namespace penstock::scheduler
