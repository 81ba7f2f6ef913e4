// ZeroMQ channels of the control plane. zmq.h stays in the .cc files.
//
// RouterChannel (router) and NodeChannel (node) carry Control messages; PeerServer and PeerClient carry the
// hello that prefill and decode nodes exchange before any endpoint is made, as bytes that a checker of the
// caller accepts. Each channel belongs to ONE thread, the one that made it; the Context may be shared and
// must outlive them.
//
// fd() is edge-triggered, as ZeroMQ's is: after it polls readable, and also after sending, call receive()
// until it brings nothing. A frame that fails verification is counted and dropped with a reason
// (take_dropped); it never reaches the caller.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "wire/control.h"
#include "wire/curve_zmq.h"

namespace penstock::wire {

class ZmqSocket;  // socket_zmq.h, private to this room
class ZapServer;  // zap_zmq.h, likewise

// ZeroMQ's I/O thread. One per process is enough.
class Context {
 public:
  Context();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  void* handle() const { return handle_; }
  // Made when the first CURVE server asks for it.
  ZapServer& zap();

 private:
  void* handle_;
  std::unique_ptr<ZapServer> zap_;
};

struct ChannelOptions {
  CurveKeys curve;
  size_t frame_bytes_max = kControlBytesMax;  // a peer that sends more is disconnected
  int queue_len_max = 10000;                  // messages, per peer and direction; beyond it send() fails
  Duration reconnect = Duration::from_ms(50);
  Duration reconnect_max = Duration::from_ms(2000);  // back-off doubles up to this
};

struct ChannelCounts {
  uint64_t received = 0, sent = 0, send_failed = 0, dropped = 0;
};

struct DroppedFrame {
  std::string identity;  // who sent it, as the socket knows it
  std::string reason;
};

// The socket identity of one life of a node.
std::string node_identity(std::string_view name, uint64_t incarnation);

// What all four channels share. Not used on its own.
class Channel {
 public:
  virtual ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  int fd() const;
  const ChannelCounts& counts() const { return counts_; }
  // Frames dropped since the last call, newest 64 kept.
  std::vector<DroppedFrame> take_dropped();
  // Why connections did not come about (keys, mostly), in words for a log, each reason once in 10 s.
  std::vector<std::string> take_refused();

 protected:
  Channel(Context& context, ChannelOptions options);
  void drop(std::string identity, std::string reason);
  // One frame from a ROUTER or DEALER socket; false when nothing is pending. Malformed multiparts are dropped
  // here.
  bool receive_frame(bool has_identity, std::string& identity, std::string& bytes);
  Status send_frame(const std::string* identity, std::string_view bytes);

  Context& context_;
  ChannelOptions options_;
  std::unique_ptr<ZmqSocket> socket_;
  ChannelCounts counts_;
  std::vector<DroppedFrame> dropped_;
  std::map<std::string, std::chrono::steady_clock::time_point> refused_;  // told last
};

struct FromNode {
  std::string identity;
  std::unique_ptr<ControlT> message;
};

// The router's end.
class RouterChannel final : public Channel {
 public:
  // endpoint: tcp://host:port; port 0 takes a free one. kIo names the endpoint and the reason (port in use
  // ...).
  static Result<std::unique_ptr<RouterChannel>> bind(Context&, const std::string& endpoint,
                                                     ChannelOptions = {});

  const std::string& endpoint() const { return endpoint_; }  // with the real port
  // Appends all that is pending, up to `limit`; true when more may be waiting.
  bool receive(std::vector<FromNode>& out, size_t limit = 1024);
  // kUnavailable: no such peer is connected. kResourceExhausted: its queue is full.
  Status send(const std::string& identity, const ControlT& message);

 private:
  using Channel::Channel;
  std::string endpoint_;
};

// A node's end. The socket re-dials by itself for ever, with back-off.
class NodeChannel final : public Channel {
 public:
  // Returns at once; kInvalidArgument for an address that can never work.
  static Result<std::unique_ptr<NodeChannel>> dial(Context&, const std::string& endpoint,
                                                   const std::string& identity, ChannelOptions = {});

  bool receive(std::vector<std::unique_ptr<ControlT>>& out, size_t limit = 1024);
  // kUnavailable while no connection stands (nothing is queued for a router that is not there); the message
  // says why the last handshake failed, if one did.
  Status send(const ControlT& message);
  // Throws the connection and everything queued on it away and dials anew. fd() changes. Call it when the
  // router has been silent for too long, then send Register until it is accepted.
  Status redial();

 private:
  using Channel::Channel;
  Status open();
  std::string endpoint_, identity_;
};

// nullptr: the frame is acceptable; otherwise what is wrong. Called with every frame before it is handed out.
using FrameCheck = const char* (*)(std::string_view bytes);

struct FromPeer {
  std::string identity;
  std::string bytes;
};

// A node's ear for peers. With CURVE, peers are who has our own key pair, as all nodes of a cluster do. Binds
// port 0 of `host`, advertises `advertised_host` (same as host when empty).
class PeerServer final : public Channel {
 public:
  static Result<std::unique_ptr<PeerServer>> bind(Context&, const std::string& host,
                                                  const std::string& advertised_host, FrameCheck check,
                                                  ChannelOptions = {});
  const std::string& endpoint() const { return endpoint_; }  // tcp://advertised_host:port
  bool receive(std::vector<FromPeer>& out, size_t limit = 1024);
  Status send(const std::string& identity, std::string_view bytes);

 private:
  using Channel::Channel;
  std::string endpoint_;
  FrameCheck check_ = nullptr;
};

// One peer seen from the node that dials it.
class PeerClient final : public Channel {
 public:
  static Result<std::unique_ptr<PeerClient>> dial(Context&, const std::string& endpoint,
                                                  const std::string& identity, FrameCheck check,
                                                  ChannelOptions = {});
  bool receive(std::vector<std::string>& out, size_t limit = 1024);
  Status send(std::string_view bytes);

 private:
  using Channel::Channel;
  FrameCheck check_ = nullptr;
};

}  // namespace penstock::wire
