// Answers ZeroMQ's question which client keys may connect (ZAP, RFC 27). Private to wire/.
//
// One per Context, made with its first CURVE server; a thread of its own answers, so that no handshake waits
// for a busy driver. The other members may be called from any thread.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"

namespace penstock::wire {

class ZapServer {
 public:
  explicit ZapServer(void* context);
  // The context must have been shut down: that ends the thread.
  ~ZapServer();

  // Servers of `domain` let this public key in and no other.
  void allow(const std::string& domain, const std::string& client_key);
  void forget(const std::string& domain);
  // Who was refused since the last call, newest 64 kept.
  std::vector<std::string> take_refused(const std::string& domain);

 private:
  struct Domain {
    std::string client_key;
    std::vector<std::string> refused;
  };
  void run(void* socket);
  bool accept(const std::string& domain, const std::string& address, const std::string& mechanism,
              const std::string& credentials);

  std::mutex mutex_;
  std::map<std::string, Domain> domains_;
  std::thread thread_;
};

}  // namespace penstock::wire
