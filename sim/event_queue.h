// Virtual time: what happens next, in a defined order.
//
// Single-threaded; one queue a simulated world. Events of equal time run in the order in which they were
// posted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/time.h"

namespace penstock::sim {

class EventQueue {
 public:
  using Action = std::function<void()>;

  TimePoint now() const { return now_; }
  bool empty() const { return heap_.empty(); }
  void at(TimePoint when, Action action) {
    heap_.push_back({std::max(when, now_), ++posted_, std::move(action)});
    std::push_heap(heap_.begin(), heap_.end(), Later());
  }
  void after(Duration delay, Action action) { at(now_ + delay, std::move(action)); }
  // Moves the clock to the next event and runs it.
  void run_next() {
    std::pop_heap(heap_.begin(), heap_.end(), Later());
    Entry entry = std::move(heap_.back());
    heap_.pop_back();
    now_ = entry.when;
    entry.action();
  }

 private:
  struct Entry {
    TimePoint when;
    uint64_t order = 0;
    Action action;
  };
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const {
      return a.when != b.when ? a.when > b.when : a.order > b.order;
    }
  };
  std::vector<Entry> heap_;
  TimePoint now_;
  uint64_t posted_ = 0;
};

}  // namespace penstock::sim
