// The router process: HTTP in front, nodes behind, scheduler/cluster between them, all on one thread.
//
// start() binds everything, so that a port in use is an error and not a surprise; run() blocks the calling
// thread until the router has drained. Only stop() may be called from other threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/result.h"
#include "topology/cluster_config.h"

namespace penstock::router {

class Router {
 public:
  // record_path: every scheduler event goes to this file (event_recorder.h); empty: none is kept.
  static Result<std::unique_ptr<Router>> start(const ClusterConfig& config, Logger log,
                                               const std::string& record_path = "");
  ~Router();

  uint16_t public_port() const;
  uint16_t admin_port() const;
  const std::string& control_endpoint() const;  // tcp://host:port

  // SIGTERM and SIGINT drain; a second one leaves at once. Call before run().
  void handle_signals();
  // Returns the process's exit code: 0 after a drain, 1 when requests had to be left.
  int run();
  // The first call drains, the second leaves at once. Any thread.
  void stop();

 private:
  struct Impl;
  explicit Router(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::router
