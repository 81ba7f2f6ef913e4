// RAII over one ZeroMQ socket, errors as Result. Private to wire/; belongs to the thread that made it.
#pragma once

#include <zmq.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/channel_zmq.h"
#include "wire/handshake_zmq.h"

namespace penstock::wire {

class ZmqSocket {
 public:
  // type: ZMQ_ROUTER or ZMQ_DEALER. identity: of a DEALER; empty for a ROUTER.
  static Result<std::unique_ptr<ZmqSocket>> open(Context&, int type, const std::string& identity,
                                                 const ChannelOptions&);
  ~ZmqSocket();
  ZmqSocket(const ZmqSocket&) = delete;
  ZmqSocket& operator=(const ZmqSocket&) = delete;

  Result<std::string> bind(const std::string& endpoint);  // the endpoint with its real port
  Status connect(const std::string& endpoint);
  void discard_queued();  // what is not on the wire yet will not be sent when the socket closes
  int fd() const { return fd_; }

  enum class Received { kNothing, kMessage, kBadParts };
  // One whole multipart message of exactly `count` parts; a message of another shape is consumed: kBadParts.
  Received receive(std::string* parts, int count);
  Status send(const std::string_view* parts, int count);

  // Connections that did not come about since the last call, in words.
  std::vector<std::string> take_refused();
  const std::string& last_handshake_failure() const { return handshakes_->last_failure(); }

 private:
  ZmqSocket(Context& context, void* handle) : context_(context), handle_(handle) {}
  Status set(int option, int value, const char* name);
  Status set(int option, const std::string& value, const char* name);
  Status set_curve(const CurveKeys& keys, bool server);

  Context& context_;
  void* handle_;
  int fd_ = -1;
  std::string zap_domain_;  // of a CURVE server
  std::unique_ptr<HandshakeMonitor> handshakes_;
};

}  // namespace penstock::wire
