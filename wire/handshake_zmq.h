// Why connections of one socket do not come about: ZeroMQ itself only dials on in silence. Private to wire/.
//
// Belongs to the thread of the socket and must go before it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace penstock::wire {

class HandshakeMonitor {
 public:
  static Result<std::unique_ptr<HandshakeMonitor>> attach(void* context, void* socket, bool is_server,
                                                          bool has_curve);
  ~HandshakeMonitor();
  HandshakeMonitor(const HandshakeMonitor&) = delete;
  HandshakeMonitor& operator=(const HandshakeMonitor&) = delete;

  // Looks at what has happened: new failures in words, with what to do.
  std::vector<std::string> poll();
  // Of the last handshake, as of poll(); empty when it succeeded.
  const std::string& last_failure() const { return last_failure_; }

 private:
  HandshakeMonitor(void* socket, bool is_server, bool has_curve)
      : socket_(socket), is_server_(is_server), has_curve_(has_curve) {}

  void* socket_;
  void* events_ = nullptr;
  bool is_server_, has_curve_;
  std::string last_failure_;
};

}  // namespace penstock::wire
