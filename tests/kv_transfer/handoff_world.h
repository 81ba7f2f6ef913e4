// A prefill and a decode node around the in-memory network, with owners that behave like engines: they grant
// and free blocks, and watch that no byte changes which nobody may write.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/time.h"
#include "fabric/transport_memory.h"
#include "kv_transfer/handoff_receiver.h"
#include "kv_transfer/handoff_sender.h"

namespace penstock {

inline KvLayout small_layout() { return {3, 2, 8, 16, KvDtype::kBf16}; }

inline HandoffCapability small_capability() {
  HandoffCapability capability;
  capability.model = "test-model";
  capability.weight_version = WeightVersion(7);
  capability.layout = small_layout();
  capability.context_max = 4096;
  capability.vocab = 1000;
  return capability;
}

// Content that belongs to one attempt and one place: bytes of another one never pass for it.
std::byte kv_byte(HandoffKey key, uint32_t plane, uint32_t position, size_t offset);
HandoffRequest make_request(HandoffKey key, uint32_t tokens);

// How one transfer went, as its owner saw it.
struct SenderView {
  int reserved = 0, committed = 0, failed = 0, released = 0;
  HandoffFailure failure;
  HandoffStats stats;
  TimePoint failed_at, released_at;
};
struct ReceiverView {
  int requested = 0, committed = 0, failed = 0, released = 0;
  bool offered = false;
  HandoffFailure failure;
  HandoffRequest request;
  FirstToken first;
  std::vector<BlockId> blocks;
};

class HandoffWorld {
 public:
  HandoffWorld(const MemoryNetworkOptions& network, const HandoffOptions& options, uint32_t pool_blocks = 24,
               const HandoffCapability& decode_capability = small_capability());
  ~HandoffWorld();

  // P: takes blocks, fills them, reserves. False when it has no blocks or the sender said no.
  bool start(HandoffKey key, uint32_t tokens);
  void ready(HandoffKey key, int32_t layer, uint32_t token_end) {
    sender->layer_ready(clock.now(), key, layer, token_end);
  }
  void ready_all(HandoffKey key);
  void commit(HandoffKey key);

  // One turn: something lands, or one of the nodes runs. settle(): until nothing moves at this time.
  void step();
  void settle();
  // Lets `time` pass in steps of at most 50 ms, settling at each.
  void pass(Duration time);

  void stop_prefill();
  void resume_prefill();
  void kill_prefill();
  void kill_decode();

  // Frees what committed transfers hold on D, as if their sequences had ended.
  void finish_committed();
  // Bytes of free blocks must be as their last owner left them. Fills `problems`.
  void check_free_blocks();
  // At the end: every event sequence is legal, no block is lost.
  void check_end();

  Rng rng{1};
  ManualClock clock;
  std::unique_ptr<MemoryNetwork> network;
  std::unique_ptr<Transport> prefill, decode;
  HandoffPool prefill_pool, decode_pool;
  std::unique_ptr<HandoffSender> sender;
  std::unique_ptr<HandoffReceiver> receiver;
  PeerId decode_at_prefill, prefill_at_decode;
  std::map<HandoffKey, SenderView> sent;
  std::map<HandoffKey, ReceiverView> received;
  std::map<HandoffKey, uint32_t> tokens_of;
  std::set<uint32_t> decode_free, prefill_free;
  std::vector<std::string> problems;
  bool grant = true;           // D answers requests at once
  bool scatter = true;         // some source blocks are taken out of order
  bool decode_running = true;  // D's thread is driven
  bool prefill_alive = true, decode_alive = true, prefill_stopped = false;

 private:
  void run_prefill();
  void run_decode();
  void on_event(const SenderEvent& event);
  void on_event(const ReceiverEvent& event);
  void answer(HandoffKey key);
  void check_committed(const ReceiverView& view, HandoffKey key);
  void own(uint32_t block);
  void problem(HandoffKey key, const std::string& what);
  std::byte* at(const HandoffPool& pool, uint32_t plane, uint32_t block) const;

  std::map<HandoffKey, std::vector<BlockId>> source_;
  std::map<uint32_t, uint8_t> owner_of_;  // pattern in each free block of D: "the next owner"
  uint8_t next_owner_ = 1;
};

}  // namespace penstock
