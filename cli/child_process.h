// ChildProcess: one process started by `penstock up`, and its end.
//
// Owned by one thread, the one that started it: PR_SET_PDEATHSIG kills the child when that thread goes, even
// by SIGKILL. Destroying a ChildProcess kills and reaps what still runs.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace penstock::cli {

struct ChildSpec {
  std::string name;                    // for messages
  std::string program;                 // path of the executable
  std::vector<std::string> arguments;  // argv, the first being the name in the process list
  std::string log_file;                // stdout and stderr; empty: ours, and stdin too
  std::vector<std::pair<std::string, std::string>> environment = {};  // added to ours
};

class ChildProcess {
 public:
  // With a log file the child leads a process group of its own, so that a terminal's Ctrl-C reaches only us;
  // without one it shares our terminal. Signals are unblocked in it.
  [[nodiscard]] static Result<ChildProcess> start(const ChildSpec& spec);

  ChildProcess(ChildProcess&& other) noexcept
      : spec_(std::move(other.spec_)), pid_(std::exchange(other.pid_, -1)), status_(other.status_) {}
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess() { kill_now(); }

  const std::string& name() const { return spec_.name; }
  const std::string& log_file() const { return spec_.log_file; }
  pid_t pid() const { return pid_; }

  // Reaps it if it has ended. A child that nobody reaps counts as alive for its peers.
  bool running();
  // Meaningful once running() is false: 0-255, or 128 + signal.
  int exit_code() const;
  // "exited with code 1", "was killed by signal 9 (Killed)".
  std::string ending() const;

  // To the child, and its group when it leads one. No effect once it has ended.
  void send(int signal);
  // SIGKILL, then waits for it.
  void kill_now();

 private:
  ChildProcess(ChildSpec spec, pid_t pid) : spec_(std::move(spec)), pid_(pid) {}
  ChildSpec spec_;
  pid_t pid_ = -1;
  std::optional<int> status_;  // of waitpid
};

// The last lines of a file, each indented; empty when there is none.
[[nodiscard]] std::string last_lines(const std::string& path, size_t count);

}  // namespace penstock::cli
