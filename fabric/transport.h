// Transport: what moves bytes between the processes of a cluster. Few verbs; UCX behind it in production
// (transport_ucx.h), a seeded in-memory network in tests (transport_memory.h).
//
// Owned and driven by ONE thread (the node's UCX thread); allocate() may be called by the thread that builds
// it, before that one takes over. No verb blocks. Everything a verb starts is reported from inside
// progress(), never from inside the verb, so a caller may call verbs from its handlers.
//
// The loop that sleeps:   while (progress()) {}   if (arm()) epoll_wait(event_fd());
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace penstock {

using PeerId = StrongId<struct PeerIdTag, uint32_t>;                // one connection; never reused; 0: none
using RemoteMemoryId = StrongId<struct RemoteMemoryTag, uint32_t>;  // memory of a peer, as imported here

// What two processes must agree on BEFORE either makes an endpoint: unlike UCX peers crash or stall each
// other without an error. Exchanged over the control plane (kv_transfer/peer_hello.h).
struct TransportIdentity {
  std::string library;             // "ucx 1.13.1"
  std::string transports;          // UCX_TLS in force: "posix,tcp,self"
  bool mm_error_handling = false;  // UCX_MM_ERROR_HANDLING in force
  std::string host;                // boot id of the kernel: equal means shared memory is possible
  uint64_t pid_namespace = 0;      // inode; pids mean the same thing only where it is equal
  uint32_t pid = 0;
  uint64_t start_ticks = 0;  // field 22 of /proc/PID/stat: tells a pid from its later reuse
  uint64_t instance = 0;     // random, one life of one process; messages carry it
  friend bool operator==(const TransportIdentity&, const TransportIdentity&) = default;
};

// kIncompatible names both sides, the field that differs and the remedy.
[[nodiscard]] Status check_compatible(const TransportIdentity& ours, const TransportIdentity& theirs);

struct PeerAddress {
  TransportIdentity identity;
  std::string worker;  // opaque: the library's own address
};

// Memory a peer may put into: travels to it inside a message.
struct MemoryDescriptor {
  uint64_t base = 0;   // address in the owner's process
  uint64_t bytes = 0;  // length of the whole region
  std::string key;     // opaque
};

// Memory of this process, allocated by the library itself (UCX moves such memory at memcpy speed without the
// target's CPU). Freed with the Transport.
struct LocalMemory {
  std::byte* base = nullptr;
  size_t bytes = 0;
  std::string key;
  MemoryDescriptor descriptor() const { return {reinterpret_cast<uint64_t>(base), bytes, key}; }
};

// Kinds of message. Each kind has one handler in a process.
enum class MessageType : uint8_t { kHeartbeat = 0, kToReceiver = 1, kToSender = 2, kCount = 16 };

// Which lanes a connection uses, as the library chose them.
struct LaneReport {
  std::string put;            // transports that carry puts, "posix"; empty: not known yet
  std::string message;        // transports that carry messages
  bool shared_memory = true;  // puts may be plain stores into mapped memory; true while unknown
};

using Completion = std::function<void(const Status&)>;  // small captures: a transfer posts hundreds
using MessageHandler = std::function<void(PeerId from, std::span<const std::byte> body)>;
using PeerFailedHandler = std::function<void(PeerId, const Failure&)>;

class Transport {
 public:
  virtual ~Transport() = default;

  virtual const PeerAddress& address() const = 0;

  // `bytes` of zeroed memory that peers may be told of. kResourceExhausted, with the remedy, when /dev/shm or
  // the locked-memory limit is too small: found here, not by a SIGBUS later.
  virtual Result<LocalMemory> allocate(size_t bytes) = 0;

  // Makes the one endpoint to a peer; both sides call it, after the exchange of addresses. kIncompatible when
  // check_compatible() says so; nothing has been created then. Success does not say the peer is there:
  // PeerMonitor does. A second live connection to the same instance is kInvalidArgument.
  virtual Result<PeerId> connect(const PeerAddress& peer) = 0;

  // Makes a peer's memory a target of put(). Idempotent for equal descriptors. Ends with the connection.
  virtual Result<RemoteMemoryId> import_memory(PeerId peer, const MemoryDescriptor& memory) = 0;

  // Starts a one-sided write of `bytes` from `local` to `offset` of `remote`. Until `done` has run, `local`
  // must stay allocated and unchanged. There is no cancel: a put that was started may write at any time until
  // (a) flush() completed after it, or (b) this process has exited, or (c), where lanes are not shared
  // memory, the TARGET destroyed its endpoint. close() here does not stop it. `done` with OK means that
  // `local` is free, NOT that the bytes arrived. kUnavailable: the connection has failed or is closed,
  // nothing was posted, `done` never runs. A range outside the imported memory is kInvalidArgument.
  virtual Status put(PeerId peer, const std::byte* local, RemoteMemoryId remote, uint64_t offset,
                     size_t bytes, Completion done) = 0;

  // `done` with OK: every earlier put to this peer lies in the peer's memory, unless the peer died: into a
  // dead peer both succeed silently until its failure is found, so only the peer's own message commits.
  virtual Status flush(PeerId peer, Completion done) = 0;

  // Sends a copy of `body`. Delivered at most once; in order unless the connection fails, but NOT ordered
  // against puts (flush first). OK means accepted, not arrived.
  virtual Status send_message(PeerId peer, MessageType type, std::span<const std::byte> body) = 0;

  // The handler of one kind; replaces the former. Messages from an instance without a live connection here
  // are dropped. `body` lives until the handler returns.
  virtual void set_message_handler(MessageType type, MessageHandler handler) = 0;

  // Runs once for each connection that fails (not for close()), after all its completions ran with an error.
  // All listeners are called, in the order they were added. The peer is then closed already.
  virtual void add_peer_failed_listener(PeerFailedHandler listener) = 0;

  // Destroys the endpoint. Outstanding completions run with kCancelled in a later progress(); after them no
  // source memory is read any more. What the PEER posted: see may_write(). Unknown or closed: no effect.
  virtual void close(PeerId peer) = 0;

  // True while that peer's process may still write into our memory: until our endpoint to it is destroyed
  // AND, where shared memory is possible, its process has exited (seen by pidfd; a zombie has exited).
  // Memory it was offered must not be reused before. Stays meaningful after close() and failure. When a
  // process exits, event_fd() wakes the loop, progress() closes its connection, and this turns false.
  virtual bool may_write(PeerId peer) const = 0;

  // The peer's TransportIdentity::instance; equal for two connections to the same life of a process.
  virtual uint64_t instance_of(PeerId peer) const = 0;

  // The live connection to an instance; PeerId() when there is none.
  virtual PeerId connection_to(uint64_t instance) const = 0;

  virtual LaneReport lanes(PeerId peer) const = 0;

  // Moves communication forward and runs completions, messages and failures. True: something happened, call
  // again. Bounded work per call.
  virtual bool progress() = 0;

  // Readable when progress() has work, once arm() returned true. False: work is already there.
  virtual int event_fd() const = 0;
  virtual bool arm() = 0;
};

}  // namespace penstock
