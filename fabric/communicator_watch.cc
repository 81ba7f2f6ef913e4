#include "fabric/communicator_watch.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "fabric/communicator_operation.h"

namespace penstock {

RankWatch::RankWatch(PointToPoint& link, Duration deadline)
    : link_(link), deadline_(deadline), peers_(static_cast<size_t>(link.size())) {
  for (int rank = 0; rank < link.size(); ++rank) {
    Peer& peer = peers_[static_cast<size_t>(rank)];
    peer.small_talk.done = true;
    peer.last_word.done = true;
    if (rank != link.rank()) listen(rank);
  }
}

void RankWatch::listen(int rank) {
  Peer& peer = peers_[static_cast<size_t>(rank)];
  peer.in.peer = rank;
  peer.in.key = message_key(Call::kControl, 0, peer.received++, 0);
  peer.in.data = peer.inbox.data();
  peer.in.bytes = peer.inbox.size();
  peer.in.receives = true;
  peer.in.failed = false;
  peer.in.done = false;
  link_.post_receive(peer.in);
}

// One word at a time: if the last one is still on its way, it says as much.
void RankWatch::say(int rank, Word word) {
  Peer& peer = peers_[static_cast<size_t>(rank)];
  if (!peer.small_talk.done || peer.small_talk.failed) return;
  peer.word[0] = static_cast<std::byte>(word);
  peer.small_talk.peer = rank;
  peer.small_talk.key = message_key(Call::kControl, 0, peer.sent++, 0);
  peer.small_talk.data = peer.word.data();
  peer.small_talk.bytes = 1;
  peer.small_talk.done = false;
  link_.post_send(peer.small_talk);
}

std::optional<Failure> RankWatch::take_control() {
  std::optional<Failure> last_word;
  for (int rank = 0; rank < link_.size(); ++rank) {
    if (rank == link_.rank()) continue;
    Peer& peer = peers_[static_cast<size_t>(rank)];
    while (peer.in.done && !peer.in.failed) {
      peer.heard = checked_;
      const auto word = static_cast<Word>(peer.inbox[0]);
      if (word == Word::kBroken && peer.in.received_bytes >= 2) {
        const auto* text = reinterpret_cast<const char*>(peer.inbox.data());
        last_word = fail(static_cast<Error>(peer.inbox[1]),
                         std::string(text + 2, std::min(peer.in.received_bytes, peer.inbox.size()) - 2));
      }
      listen(rank);
      if (word == Word::kPing) say(rank, Word::kAnswer);
    }
  }
  return last_word;
}

std::vector<int> RankWatch::find_silent(const std::vector<int>& missing, TimePoint now) {
  const bool anew = was_inattentive(now);
  checked_ = now;
  std::vector<int> silent;
  for (int rank = 0; rank < link_.size(); ++rank) {
    Peer& peer = peers_[static_cast<size_t>(rank)];
    const bool owed = std::exchange(peer.owes, std::binary_search(missing.begin(), missing.end(), rank));
    if (!peer.owes || rank == link_.rank()) continue;
    if (!owed || anew) peer.owes_since = now;
    const TimePoint since = std::max(peer.owes_since, peer.heard);
    if (now - since > deadline()) silent.push_back(rank);
    if (now - std::max(since, peer.pinged) > Duration{deadline_.us / 4}) {
      peer.pinged = now;
      say(rank, Word::kPing);
    }
  }
  return silent;
}

void RankWatch::tell_all(const Failure& failure) {
  farewell_.resize(2 + std::min(failure.message.size(), kTextMax));
  farewell_[0] = static_cast<std::byte>(Word::kBroken);
  farewell_[1] = static_cast<std::byte>(failure.code);
  std::memcpy(farewell_.data() + 2, failure.message.data(), farewell_.size() - 2);
  for (int rank = 0; rank < link_.size(); ++rank) {
    if (rank == link_.rank() || !link_.peer_failure(rank).ok()) continue;
    Peer& peer = peers_[static_cast<size_t>(rank)];
    peer.last_word.peer = rank;
    peer.last_word.key = message_key(Call::kControl, 0, peer.sent++, 0);
    peer.last_word.data = farewell_.data();
    peer.last_word.bytes = farewell_.size();
    peer.last_word.done = false;
    link_.post_send(peer.last_word);
  }
  constexpr int kRounds = 50;  // of 2 ms: a stopped rank never takes it
  for (int round = 0; round < kRounds; ++round) {
    while (link_.progress()) {
    }
    if (std::all_of(peers_.begin(), peers_.end(),
                    [](const Peer& peer) { return peer.last_word.done.load(); }))
      return;
    link_.sleep(std::chrono::milliseconds(2));
  }
}

}  // namespace penstock
