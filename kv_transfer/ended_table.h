// Remembers how transfers ended, so that late, repeated and replayed messages get a typed answer. Bounded:
// the oldest end is forgotten first. A plain value; single-threaded.
#pragma once

#include <deque>
#include <map>
#include <optional>

#include "kv_transfer/handoff_types.h"

namespace penstock {

struct TransferEnd {
  bool committed = false;
  HandoffReason reason = HandoffReason::kNone;  // when not committed
  uint64_t bytes = 0;                           // when committed
};

class EndedTable {
 public:
  explicit EndedTable(size_t capacity) : capacity_(capacity) {}

  void insert(HandoffKey key, const TransferEnd& end) {
    if (!ends_.insert_or_assign(key, end).second) return;
    order_.push_back(key);
    while (order_.size() > capacity_) {
      ends_.erase(order_.front());
      order_.pop_front();
    }
  }
  std::optional<TransferEnd> find(HandoffKey key) const {
    const auto found = ends_.find(key);
    if (found == ends_.end()) return std::nullopt;
    return found->second;
  }
  // A later epoch of the same transfer has ended here.
  bool knows_later(HandoffKey key) const {
    const auto later = ends_.upper_bound(key);
    return later != ends_.end() && later->first.transfer == key.transfer;
  }

 private:
  size_t capacity_;
  std::map<HandoffKey, TransferEnd> ends_;
  std::deque<HandoffKey> order_;
};

}  // namespace penstock
