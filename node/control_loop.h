// ControlLoop: the control thread of a node: registration, frames and heartbeats to the router, hellos with
// peers, draining. It runs on the thread that calls run(), usually the process's main thread.
//
// The router is dialled for ever. When it has been silent for dead_after, everything it asked for is aborted,
// and the node registers anew.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "node/engine_side.h"
#include "node/frame_builder.h"
#include "wire/channel_zmq.h"

namespace penstock {

struct ControlOptions {
  std::string router_endpoint;   // tcp://host:port
  std::string listen_host;       // peers dial it
  wire::RegisterT registration;  // peer_address is filled in here
  PeerHello hello;               // what this node says to peers
  Duration heartbeat_period = Duration::from_ms(200);
  Duration dead_after = Duration::from_ms(2000);
  Duration drain_timeout = Duration::from_ms(30000);
  wire::ChannelOptions channel;
};

class ControlLoop {
 public:
  ControlLoop(ControlOptions options, NodePorts& ports, const Clock& clock, Logger log);
  ~ControlLoop();

  // Returns when `signal_fd` (a signalfd of SIGTERM and SIGINT) asked for the end: after the first signal
  // once nothing runs here any more, after the second at once. A failure: the router refused this node for
  // good.
  Status run(int signal_fd);

 private:
  struct Peer {
    uint32_t node_id = 0;      // 0: the router does not list it now
    uint32_t reported_as = 0;  // node id under which the router heard of the pair, or of its refusal
    std::string address;
    std::unique_ptr<wire::PeerClient> dialled;  // P dials D; null on the other side, and once connected
    TimePoint hello_due;
    Duration hello_wait = Duration::from_ms(100);
    uint64_t attempt = 0;    // of the connection that the hellos ask for; 0: none was asked for yet
    bool connected = false;  // hellos agreed, the transfer thread was told
    std::string refusal;     // why the pair can never work; empty: no such reason
    bool wants_hello() const { return node_id != 0 && !connected && refusal.empty(); }
  };

  Status open();
  void poll_once(int signal_fd);
  void on_signal();

  // Router.
  void receive_from_router();
  Status handle(wire::ControlT& message);
  Status on_registered(const wire::RegisteredT& answer);
  void on_peers(const wire::PeersT& peers);
  void on_start(const wire::StartT& start);
  void register_now();
  void drop_registration(const char* why);
  void lose_router();
  void tick_router(TimePoint now);
  void send_frame();

  // Peers.
  bool dials() const { return options_.registration.role == wire::Role::Prefill; }
  void say_hello(TimePoint now);
  void receive_hello_answers();
  void receive_hellos();
  void on_hello_answer(const PeerIdentity& identity, Peer& peer, const std::string& bytes);
  void on_hello(const wire::FromPeer& frame);
  void log_dropped(const char* what, wire::Channel& channel);

  // Other threads.
  void receive_messages();
  void on_pair_ready(const PairReady& pair);
  void on_pair_broken(const PairBroken& pair);
  void report_pair(const PairReady& pair);
  void report_refusal(Peer& peer);
  bool idle() const;

  ControlOptions options_;
  NodePorts& ports_;
  const Clock& clock_;
  Logger log_;
  wire::Context context_;
  std::unique_ptr<wire::NodeChannel> router_;
  std::unique_ptr<wire::PeerServer> server_;
  PeerIdentity identity_;

  bool registered_ = false;
  TimePoint register_due_, frame_due_, heard_, unreachable_told_;
  std::map<PeerIdentity, Peer> peers_;
  std::map<PeerIdentity, PairReady> pairs_;
  uint64_t attempts_ = 0;                            // P: of connections asked for, to whichever peer
  std::map<PeerIdentity, uint64_t> heard_attempts_;  // D: those that connections stand for
  bool sent_ = false;  // since the last poll: what came in meanwhile may not show in the descriptors
  FrameBuilder frame_;
  std::vector<ControlMessage> messages_;
  int signals_ = 0;
  TimePoint drain_deadline_ = TimePoint::max();
  Status fatal_;
};

}  // namespace penstock
