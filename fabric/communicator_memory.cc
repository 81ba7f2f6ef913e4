#include "fabric/communicator_memory.h"

#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>

namespace penstock {
namespace {

using MessageName = std::pair<int, uint64_t>;  // source, key

// What has been posted for one rank and has not met its other half.
struct Mailbox {
  std::map<MessageName, Transfer*> receives;
  std::map<MessageName, Transfer*> sends;
  std::condition_variable changed;
  uint64_t news = 0;
  bool dead = false;
};

struct Hub {
  explicit Hub(int size) : boxes(static_cast<size_t>(size)) {}
  std::mutex mutex;
  std::vector<Mailbox> boxes;
  Mailbox& box(int rank) { return boxes[static_cast<size_t>(rank)]; }
  void wake(int rank) {
    box(rank).news += 1;
    box(rank).changed.notify_all();
  }
  void complete(Transfer& send, Transfer& receive) {
    if (send.bytes <= receive.bytes && send.bytes > 0) std::memcpy(receive.data, send.data, send.bytes);
    receive.received = send.signature;
    receive.received_bytes = send.bytes;
    receive.done = true;
    send.done = true;
  }
};

class MemoryLink final : public PointToPoint {
 public:
  MemoryLink(std::shared_ptr<Hub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}
  ~MemoryLink() override {
    const std::lock_guard lock(hub_->mutex);
    hub_->box(rank_).dead = true;
    withdraw();
    for (int rank = 0; rank < size(); ++rank) hub_->wake(rank);
  }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(hub_->boxes.size()); }

  void post_send(Transfer& transfer) override {
    const std::lock_guard lock(hub_->mutex);
    Mailbox& box = hub_->box(transfer.peer);
    if (box.dead) return fail_transfer(transfer);
    const MessageName name{rank_, transfer.key};
    if (const auto found = box.receives.find(name); found != box.receives.end()) {
      hub_->complete(transfer, *found->second);
      box.receives.erase(found);
    } else {
      box.sends[name] = &transfer;
    }
    hub_->wake(transfer.peer);
  }

  void post_receive(Transfer& transfer) override {
    const std::lock_guard lock(hub_->mutex);
    Mailbox& box = hub_->box(rank_);
    const MessageName name{transfer.peer, transfer.key};
    if (const auto found = box.sends.find(name); found != box.sends.end()) {
      hub_->complete(*found->second, transfer);
      box.sends.erase(found);
      hub_->wake(transfer.peer);
    } else if (hub_->box(transfer.peer).dead) {
      fail_transfer(transfer);
    } else {
      box.receives[name] = &transfer;
    }
  }

  bool progress() override {
    const std::lock_guard lock(hub_->mutex);
    Mailbox& box = hub_->box(rank_);
    for (auto entry = box.receives.begin(); entry != box.receives.end();) {
      const bool dead = hub_->box(entry->first.first).dead;
      if (dead) fail_transfer(*entry->second);
      entry = dead ? box.receives.erase(entry) : std::next(entry);
    }
    return std::exchange(seen_, box.news) != box.news;
  }

  void sleep(std::chrono::milliseconds at_most) override {
    std::unique_lock lock(hub_->mutex);
    Mailbox& box = hub_->box(rank_);
    box.changed.wait_for(lock, at_most, [&] { return box.news != seen_; });
  }

  Status peer_failure(int peer) const override {
    const std::lock_guard lock(hub_->mutex);
    if (hub_->box(peer).dead) return fail(Error::kUnavailable, "its link was closed");
    return {};
  }

  void abandon() override {
    const std::lock_guard lock(hub_->mutex);
    withdraw();
  }

 private:
  static void fail_transfer(Transfer& transfer) {
    transfer.failed = true;
    transfer.done = true;
  }
  // Own receives and own sends; what others have for a dead rank fails.
  void withdraw() {
    Mailbox& own = hub_->box(rank_);
    own.receives.clear();
    if (own.dead) {
      for (auto& [name, send] : own.sends) fail_transfer(*send);
      own.sends.clear();
    }
    for (Mailbox& box : hub_->boxes)
      std::erase_if(box.sends, [this](const auto& entry) { return entry.first.first == rank_; });
  }

  std::shared_ptr<Hub> hub_;
  const int rank_;
  uint64_t seen_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<PointToPoint>> make_memory_links(int size) {
  const auto hub = std::make_shared<Hub>(size);
  std::vector<std::unique_ptr<PointToPoint>> links;
  for (int rank = 0; rank < size; ++rank) links.push_back(std::make_unique<MemoryLink>(hub, rank));
  return links;
}

}  // namespace penstock
