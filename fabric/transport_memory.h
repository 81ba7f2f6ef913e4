// A network inside one process, for tests: several Transports, and faults drawn from a seed.
//
// Single-threaded and deterministic: same seed and same calls, same run. Puts and messages wait in flight and
// land in random order, one for each deliver(); puts keep landing after close(), as stores into shared memory
// do, until their process is killed (or, with `network_lanes`, until the target closes).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "fabric/transport.h"

namespace penstock {

struct MemoryNetworkOptions {
  uint64_t seed = 1;
  double drop_message = 0;
  double duplicate_message = 0;
  bool reorder_messages = false;  // else in order for each pair
  double flip_byte = 0;           // of a put, on its way
  double fail_put = 0;            // that put writes nothing and completes with an error; others go on
  bool network_lanes = false;     // lanes without shared memory
};

class MemoryTransport;

class MemoryNetwork {
 public:
  explicit MemoryNetwork(const MemoryNetworkOptions& options);
  ~MemoryNetwork();

  // A process on this network; it must not outlive the network.
  std::unique_ptr<Transport> make_transport();

  // Lets one thing in flight happen, chosen by the seed. False: nothing can.
  bool deliver();
  void deliver_all() {
    while (deliver()) {
    }
  }

  // By Transport::address().identity.instance. A stopped process posts nothing new (its owner does not drive
  // it), what it had posted stays in flight until resume(); a killed one has exited, its puts never land.
  void stop(uint64_t instance);
  void resume(uint64_t instance);
  void kill(uint64_t instance);

  // Sees every message when sent; false loses it. For tests that lose one particular message.
  using Filter =
      std::function<bool(uint64_t from, uint64_t to, MessageType type, std::span<const std::byte> body)>;
  void set_filter(Filter filter) { filter_ = std::move(filter); }

  uint64_t puts_landed() const { return puts_landed_; }
  size_t in_flight() const { return flight_.size(); }

 private:
  friend class MemoryTransport;
  struct InFlight {
    uint64_t from = 0, to = 0;          // instances
    PeerId connection;                  // of the sender
    PeerId target_connection;           // of the target, when a put was posted
    const std::byte* source = nullptr;  // of a put; null once its completion ran and `body` holds the bytes
    std::byte* target = nullptr;
    std::string body;  // of a message
    MessageType type = MessageType::kHeartbeat;
    size_t bytes = 0;
    Completion done;
    uint64_t put_number = 0;
    bool is_put = false;
  };
  void land(InFlight item);
  bool can_land(size_t index) const;
  MemoryTransport* find(uint64_t instance);

  MemoryNetworkOptions options_;
  Rng rng_;
  std::vector<InFlight> flight_;
  std::map<uint64_t, MemoryTransport*> transports_;
  std::map<uint64_t, bool> stopped_;
  Filter filter_;
  uint64_t last_instance_ = 0;
  uint64_t puts_landed_ = 0;
};

}  // namespace penstock
