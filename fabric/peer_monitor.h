// PeerMonitor: own heartbeats between peers, with deadlines in both directions.
//
// A stopped (SIGSTOP) or partitioned process is noticed by no transport. Driven by the UCX thread, which no
// forward pass can block; the body of a heartbeat is one byte, whether the sender hears the other side.
// Silence is only REPORTED here: what to do (close over tcp, quarantine over shared memory) is the caller's.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "fabric/transport.h"

namespace penstock {

struct HeartbeatOptions {
  Duration period = Duration::from_ms(200);
  Duration dead_after = Duration::from_ms(2000);
  Duration first_reply = Duration::from_ms(5000);  // from add() until both directions are known to work
};

struct PeerMonitorEvent {
  enum class Kind {
    kEstablished,  // both directions work: the peer hears us and we hear it; once per connection
    kNoReply,      // never established within first_reply; once
    kSilent,       // nothing heard for dead_after
    kHeardAgain,   // a silent peer spoke: it was stopped, not dead
  };
  Kind kind;
  PeerId peer;
};

class PeerMonitor {
 public:
  // Takes MessageType::kHeartbeat of the transport, which must outlive it.
  PeerMonitor(Transport& transport, HeartbeatOptions options);

  void add(TimePoint now, PeerId peer);
  void remove(PeerId peer);  // also when the transport reported its failure

  bool established(PeerId peer) const;
  bool silent(PeerId peer) const;

  // Sends what is due and finds silence. Call when next_deadline() has come or progress() did something.
  void tick(TimePoint now);
  TimePoint next_deadline() const;

  std::vector<PeerMonitorEvent> take_events();

 private:
  struct Watched {
    TimePoint added, next_send, last_heard;
    bool heard = false, heard_by_peer = false, established = false, silent = false, gave_up = false;
    bool fresh = false;  // a heartbeat came since the last tick
  };
  void on_heartbeat(PeerId from, std::span<const std::byte> body);
  void judge(TimePoint now, PeerId peer, Watched& watched);

  Transport& transport_;
  HeartbeatOptions options_;
  std::map<PeerId, Watched> peers_;
  std::vector<PeerMonitorEvent> events_;
};

}  // namespace penstock
