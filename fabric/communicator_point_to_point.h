// Matched messages between the ranks of a world: all that the collectives ask of a backend.
//
// One thread owns each rank's side. A message meets the receive with the same key, in whichever order the two
// come; keys are never reused while either side is open. A Transfer and its memory stay where they are until
// `done`, or until abandon() has returned.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace penstock {

// What the sender called, in front of every message: how members that disagree find out.
struct CallSignature {
  uint8_t call = 0;
  uint8_t element = 0;
  uint8_t reduction = 0;
  uint8_t reserved = 0;
  int32_t root = 0;
  int64_t count = 0;
  int64_t shard_count = 0;
  friend bool operator==(const CallSignature&, const CallSignature&) = default;
};

struct Transfer {
  int peer = 0;
  uint64_t key = 0;  // without the ranks: a backend adds them
  CallSignature signature;
  std::byte* data = nullptr;  // read only, when sent
  size_t bytes = 0;
  bool receives = false;
  std::atomic<bool> done = false;
  // Of a receive, once done. More bytes than there was room for: `data` is untouched.
  CallSignature received;
  size_t received_bytes = 0;
  bool failed = false;   // the peer went, or the library refused: peer_failure() says why
  bool checked = false;  // the owner's own mark: seen done
};

class PointToPoint {
 public:
  virtual ~PointToPoint() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void post_send(Transfer& transfer) = 0;
  virtual void post_receive(Transfer& transfer) = 0;
  // Completes what can be completed; true when anything happened.
  virtual bool progress() = 0;
  // Sleeps until progress() may have something to do, at most this long.
  virtual void sleep(std::chrono::milliseconds at_most) = 0;
  // Ok while nothing is known against the peer.
  virtual Status peer_failure(int peer) const = 0;
  // Gives up every open transfer: afterwards nothing reads or writes their memory. Last call of all.
  virtual void abandon() = 0;
};

}  // namespace penstock
