#include "text/stop_strings.h"

#include <algorithm>
#include <deque>

#include "base/check.h"

namespace penstock {

StopStrings::StopStrings(std::vector<std::string> stops, bool include_stop) : include_stop_(include_stop) {
  states_.emplace_back();
  for (size_t i = 0; i < stops.size(); ++i) insert(stops[i], static_cast<int>(i));
  link_failures();
}

void StopStrings::insert(std::string_view stop, int index) {
  if (stop.empty()) return;
  int state = 0;
  for (const char c : stop) {
    const auto byte = static_cast<unsigned char>(c);
    int next = edge(state, byte);
    if (next < 0) {
      next = static_cast<int>(states_.size());
      const int depth = states_[state].depth + 1;
      states_[state].next.emplace_back(byte, next);
      states_.push_back({.next = {}, .fail = 0, .depth = depth});
    }
    state = next;
  }
  if (states_[state].stop >= 0) return;  // the same string twice: the first counts
  states_[state].stop = index;
  states_[state].stop_length = static_cast<int>(stop.size());
}

int StopStrings::edge(int state, unsigned char byte) const {
  for (const auto& [label, next] : states_[state].next) {
    if (label == byte) return next;
  }
  return -1;
}

int StopStrings::advance(int state, unsigned char byte) const {
  for (;;) {
    const int next = edge(state, byte);
    if (next >= 0) return next;
    if (state == 0) return 0;
    state = states_[state].fail;
  }
}

// Breadth first, so that the failure of a state is complete before its children need it.
void StopStrings::link_failures() {
  std::deque<int> queue;
  for (const auto& [byte, child] : states_[0].next) queue.push_back(child);
  while (!queue.empty()) {
    const int state = queue.front();
    queue.pop_front();
    for (const auto& [byte, child] : states_[state].next) {
      states_[child].fail = advance(states_[state].fail, byte);
      queue.push_back(child);
    }
    const State& fail = states_[states_[state].fail];
    if (states_[state].stop < 0 && fail.stop >= 0) {  // a shorter stop string ends here as well
      states_[state].stop = fail.stop;
      states_[state].stop_length = fail.stop_length;
    }
  }
}

bool StopStrings::push(std::string_view piece, std::string& out) {
  if (stopped()) return true;
  for (size_t i = 0; i < piece.size(); ++i) {
    held_.push_back(piece[i]);
    state_ = advance(state_, static_cast<unsigned char>(piece[i]));
    const State& state = states_[state_];
    if (state.stop >= 0) {
      const size_t length = static_cast<size_t>(state.stop_length);
      CHECK_LE(length, held_.size());
      out.append(held_, 0, include_stop_ ? held_.size() : held_.size() - length);
      held_.clear();
      matched_ = static_cast<size_t>(state.stop);
      return true;
    }
  }
  // The automaton's depth is the length of the longest suffix that may still grow into a stop string.
  const size_t keep = static_cast<size_t>(states_[state_].depth);
  out.append(held_, 0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return false;
}

void StopStrings::flush(std::string& out) {
  out.append(held_);
  held_.clear();
  state_ = 0;
}

}  // namespace penstock
