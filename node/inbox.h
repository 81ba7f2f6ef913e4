// Inbox: messages from any thread to the one that owns it. Unbounded by itself; every sender's protocol
// bounds what it can have outstanding.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "base/fd.h"

namespace penstock {

template <typename Message>
class Inbox {
 public:
  void post(Message message) {
    bool was_empty = false;
    {
      const std::lock_guard lock(mutex_);
      was_empty = messages_.empty();
      messages_.push_back(std::move(message));
    }
    if (was_empty) wake_.notify();
  }

  // Wakes the owner without a message.
  void nudge() { wake_.notify(); }

  // Moves all messages into `out`, which is cleared first. Owner thread only.
  void take(std::vector<Message>& out) {
    out.clear();
    wake_.drain();
    const std::lock_guard lock(mutex_);
    std::swap(messages_, out);
  }

  // Readable when take() would bring something.
  int fd() const { return wake_.fd(); }

 private:
  std::mutex mutex_;
  std::vector<Message> messages_;
  WakeEvent wake_;
};

}  // namespace penstock
