// A serving node without an engine: speaks the control channel and answers with a script.
//
// The token at position p of a prompt of n tokens is script[p - n], whichever node gives it, so that a
// replayed sequence goes on as it would have. One thread each; the public verbs may be called from any
// thread. Prefill nodes hand sequences to decode nodes through the FakeCluster, as KV handoffs would.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/ids.h"
#include "wire/channel_zmq.h"

namespace penstock::router {

struct FakeNodeOptions {
  std::string name;
  wire::Role role = wire::Role::Decode;
  std::vector<TokenId> script;
  int token_ms = 2;     // between two steps
  TokenId end_id = -1;  // this token of the script ends the sequence
  std::string model = "tiny";
  uint64_t incarnation = 1;
  uint64_t layout_hash = 99;
  uint32_t pool_blocks = 1000;
  uint32_t sequences_max = 256;
  int step_tokens_max = 1 << 30;  // tokens in all after which the node falls silent
};

class FakeNode;

// Which fake node has which id: the other end of a handoff.
struct FakeCluster {
  std::mutex mutex;
  std::map<uint32_t, FakeNode*> nodes;
};

class FakeNode {
 public:
  FakeNode(FakeCluster& cluster, std::string router_endpoint, FakeNodeOptions options);
  ~FakeNode() { kill(); }

  void kill();                        // as SIGKILL: the connection closes, nothing more is said
  void pause(bool on);                // as SIGSTOP and SIGCONT
  void hold(bool on) { held_ = on; }  // sequences wait, heartbeats go on: a long prefill
  void skip_frame_number() { skip_frame_ = true; }
  void fail_next(const std::string& message);  // the next Start is answered with SequenceFailed

  // What happened so far.
  std::vector<wire::StartT> starts() const;
  std::vector<wire::AbortT> aborts() const;
  std::string refusal() const;  // of the last Registered that refused
  int registrations() const { return registrations_; }
  int tokens_sent() const { return tokens_sent_; }
  size_t active() const;
  // Until `done` holds; false after some patience.
  template <typename Done>
  bool wait(Done done) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] {
      lock.unlock();
      const bool result = done();
      lock.lock();
      return result;
    });
  }

 private:
  struct Sequence {
    wire::StartT start;
    uint32_t position = 0;  // of the next token
    int choice = 0;
  };

  void run();
  void on_message(const wire::ControlT& message);
  void register_now();
  void announce();
  void report_pairs();
  void step();
  void add_token(wire::FrameT& frame, Sequence& sequence, bool& ended);
  void hand_over(const Sequence& sequence);
  void take_over(Sequence sequence);  // on another node's thread
  void send_frame(wire::FrameT frame);

  FakeCluster& cluster_;
  std::string endpoint_;
  FakeNodeOptions options_;
  std::atomic<bool> stop_{false}, paused_{false}, held_{false}, skip_frame_{false};
  std::atomic<int> registrations_{0}, tokens_sent_{0};

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<Sequence> active_, incoming_;
  std::vector<wire::StartT> starts_;
  std::vector<wire::AbortT> aborts_;
  std::string refusal_, fail_next_;

  // The thread's own.
  wire::Context context_;
  std::unique_ptr<wire::NodeChannel> channel_;
  uint32_t id_ = 0;
  uint64_t frame_no_ = 0;
  std::chrono::steady_clock::time_point last_frame_;
  bool accepted_ = false, final_ = false;
  std::vector<wire::EventUnion> events_;
  std::vector<uint32_t> pairing_;  // peers whose pair is not reported yet
  std::thread thread_;
};

}  // namespace penstock::router
