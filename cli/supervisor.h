// Supervisor: the processes of `penstock up`: starts router and nodes, waits until they serve, watches them,
// and leaves nothing running.
//
// Single-threaded: the thread that calls start() must live as long as the cluster (ChildProcess). It blocks
// SIGINT, SIGTERM and SIGHUP and takes them from a signalfd between steps.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/time.h"
#include "cli/child_process.h"
#include "topology/cluster_config.h"

namespace penstock::cli {

struct SupervisorOptions {
  std::string program;            // this binary
  std::string config_file;        // handed on
  std::vector<std::string> sets;  // handed on
  std::string log_dir;            // exists
  Duration ready_timeout = Duration::from_ms(120000);
};

class Supervisor {
 public:
  // `progress` gets a line for each thing that happens; it must outlive this.
  Supervisor(const ClusterConfig& config, SupervisorOptions options, std::ostream& progress);
  ~Supervisor();

  // Router and nodes, then waits until the router serves and every node of the file is ready. A process that
  // ends before is a failure that carries its last log lines. kCancelled when a signal came.
  [[nodiscard]] Status start();

  // Until a signal comes or the router ends. A node that ends is reported and the rest serves on: what its
  // requests see is the router's affair. Gives the exit code.
  [[nodiscard]] Result<int> serve();

  // Runs one command with our terminal while the cluster serves; gives its exit code.
  [[nodiscard]] Result<int> run(const std::vector<std::string>& command);

  // The first signal that came; 0: none.
  int signal() const { return signal_; }

  // SIGTERM to the router, which drains; then to the nodes; SIGKILL to what stays. A further signal while it
  // waits kills at once. Called by the destructor too.
  void stop();

 private:
  ChildSpec router_spec() const;
  ChildSpec node_spec(const NodeConfig& node) const;
  // Waits up to `longest` for a signal; 0 when none came.
  int wait_signal(Duration longest);
  // Reports ended nodes once; a failure when the router has ended, or any process while starting.
  Status check_children(bool starting);
  std::string obituary(const ChildProcess& child) const;
  bool cluster_ready() const;
  // Sends `signal` to all nodes or to the router and waits; false when a further signal cut it short.
  bool end_gracefully(bool router, Duration longest);

  const ClusterConfig& config_;
  SupervisorOptions options_;
  std::ostream& progress_;
  const SystemClock clock_;
  UniqueFd signals_;
  std::vector<std::unique_ptr<ChildProcess>> children_;  // the router first
  std::vector<const ChildProcess*> reported_;
  int signal_ = 0;  // the first that came
  TimePoint signalled_at_;
};

}  // namespace penstock::cli
