// One side of a test over real UCX, inside a child process: a transport, memory that the other side may
// write, and the connection to it. Helloes travel through the parent, which plays the control plane.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/time.h"
#include "fabric/peer_monitor.h"
#include "fabric/transport.h"
#include "kv_transfer/peer_hello.h"
#include "tests/fabric/child_process.h"

namespace penstock {

class UcxSide {
 public:
  static constexpr size_t kBytes = 4u << 20;

  // Says hello to the parent at once. What goes wrong ends the child, and so fails the test.
  UcxSide(Channel& channel, const std::string& transports);

  // Waits for the other side's hello. What Transport::connect() says.
  Result<PeerId> try_connect();
  // Connects, waits for heartbeats both ways, imports the other side's memory.
  void connect();

  // Drives the loop until `done`; aborts the child after half a minute.
  void run_until(const std::function<bool()>& done);
  // One round of the loop that sleeps: until something wakes it.
  void sleep_once();

  // Sends one word; words from the other side are collected in `words`.
  void say(const std::string& word);
  void wait_for_word(const std::string& word);

  Channel& channel;
  std::unique_ptr<Transport> transport;
  LocalMemory memory;
  PeerHello theirs;
  PeerId peer;
  RemoteMemoryId remote;
  std::vector<std::string> words;
  int failures = 0;  // how often the listener ran

 private:
  SystemClock clock_;
  std::unique_ptr<PeerMonitor> monitor_;
};

// In the parent: each gets the hello that the other has sent.
inline void introduce(ChildProcess& a, ChildProcess& b) {
  const auto from_a = a.channel().receive();
  const auto from_b = b.channel().receive();
  a.channel().send(from_b.value_or(""));
  b.channel().send(from_a.value_or(""));
}

}  // namespace penstock
