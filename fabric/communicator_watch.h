// Who owes something and for how long: the patience of a world, and its small talk (pings, answers, the one
// message that ends it). Part of RankWorld, same thread.
#pragma once

#include <array>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "fabric/communicator_point_to_point.h"

namespace penstock {

class RankWatch {
 public:
  RankWatch(PointToPoint& link, Duration deadline);

  // Takes what came in and answers it. The failure is another rank's last word.
  std::optional<Failure> take_control();
  // `missing`: world ranks that open operations wait for. Pings those; the silent ones past the deadline.
  std::vector<int> find_silent(const std::vector<int>& missing, TimePoint now);
  // Time for find_silent(); also tells whether this rank slept through so much that waits start anew.
  bool due(TimePoint now) const { return now - checked_ >= Duration{deadline_.us / 16}; }
  bool was_inattentive(TimePoint now) const { return now - checked_ > Duration{deadline_.us / 4}; }
  Duration deadline() const { return deadline_; }

  // Tells every other rank why this world ends, without waiting for those that do not listen.
  void tell_all(const Failure& failure);

 private:
  enum class Word : uint8_t { kPing, kAnswer, kBroken };
  static constexpr size_t kTextMax = 1000;
  struct Peer {
    Transfer in, small_talk, last_word;
    std::array<std::byte, kTextMax + 2> inbox{};
    std::array<std::byte, 1> word{};
    uint64_t received = 0, sent = 0;
    TimePoint heard, pinged, owes_since;
    bool owes = false;
  };
  void listen(int rank);
  void say(int rank, Word word);

  PointToPoint& link_;
  const Duration deadline_;
  std::deque<Peer> peers_;  // by rank; the own one unused
  TimePoint checked_;
  std::vector<std::byte> farewell_;
};

}  // namespace penstock
