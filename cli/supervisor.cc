#include "cli/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "cli/cluster_status.h"

namespace penstock::cli {
namespace {

constexpr Duration kSameSignal = Duration::from_ms(300);
constexpr Duration kPoll = Duration::from_ms(50);
constexpr Duration kNodesStopMax = Duration::from_ms(10000);
constexpr Duration kCommandStopMax = Duration::from_ms(2000);
constexpr size_t kLogLines = 20;

sigset_t watched_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, signal);
  return set;
}

// As a shell finds it: a name without a slash is looked for along PATH. The name itself where nothing fits.
std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  if (name.find('/') != std::string::npos || path == nullptr) return name;
  std::istringstream folders(path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return name;
}

}  // namespace

Supervisor::Supervisor(const ClusterConfig& config, SupervisorOptions options, std::ostream& progress)
    : config_(config), options_(std::move(options)), progress_(progress) {
  const sigset_t set = watched_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_.reset(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  CHECK(signals_.valid());
}

Supervisor::~Supervisor() { stop(); }

Status Supervisor::start() {
  std::vector<ChildSpec> specs = {router_spec()};
  for (const NodeConfig& node : config_.nodes) specs.push_back(node_spec(node));
  for (const ChildSpec& spec : specs) {
    ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::start(spec));
    progress_ << "started " << spec.name << " pid=" << child.pid() << " log=" << spec.log_file << std::endl;
    children_.push_back(std::make_unique<ChildProcess>(std::move(child)));
  }
  const TimePoint began = clock_.now();
  TimePoint spoken = began;
  while (!cluster_ready()) {
    RETURN_IF_ERROR(check_children(true));
    if (wait_signal(kPoll) != 0) return fail(Error::kCancelled, "stopped by a signal before it was ready");
    const TimePoint now = clock_.now();
    if (now - began > options_.ready_timeout) {
      std::string logs;
      for (const auto& child : children_)
        logs += "\n  " + child->name() + " (" + child->log_file() + "):\n" + last_lines(child->log_file(), 5);
      return fail(Error::kDeadlineExceeded,
                  "not ready after " + std::to_string(options_.ready_timeout.us / 1000000) +
                      " s (--ready-timeout): what the processes wrote last:" + logs);
    }
    if (now - spoken > Duration::from_ms(5000)) {
      progress_ << "waiting for the nodes: " << (now - began).us / 1000000 << " s" << std::endl;
      spoken = now;
    }
  }
  progress_ << "ready after " << static_cast<double>((clock_.now() - began).us / 10000) / 100 << " s"
            << std::endl;
  return {};
}

Result<int> Supervisor::serve() {
  while (signal_ == 0) {
    RETURN_IF_ERROR(check_children(false));
    wait_signal(kPoll);
  }
  return 0;
}

Result<int> Supervisor::run(const std::vector<std::string>& command) {
  ASSIGN_OR_RETURN(ChildProcess child,
                   ChildProcess::start({.name = "command after --",
                                        .program = find_program(command.front()),
                                        .arguments = command,
                                        .log_file = "",
                                        // The addresses in force, for whatever reads a configuration.
                                        .environment = {{"PENSTOCK__ROUTER__LISTEN", config_.router.listen},
                                                        {"PENSTOCK__ROUTER__ADMIN", config_.router.admin}}}));
  while (child.running()) {
    if (wait_signal(kPoll) != 0) {
      child.send(SIGTERM);
      const TimePoint deadline = clock_.now() + kCommandStopMax;
      while (child.running() && clock_.now() < deadline) ::poll(nullptr, 0, 20);
      return 128 + signal_;
    }
    RETURN_IF_ERROR(check_children(false));
  }
  return child.exit_code();
}

void Supervisor::stop() {
  if (children_.empty()) return;
  const Duration drain = Duration::from_ms(config_.router.drain_timeout_ms + 2000);
  if (end_gracefully(true, drain)) end_gracefully(false, kNodesStopMax);
  for (const auto& child : children_) {
    if (!child->running()) continue;
    progress_ << "killing " << child->name() << " pid=" << child->pid() << std::endl;
    child->kill_now();
  }
  children_.clear();
  progress_ << "stopped" << std::endl;
}

bool Supervisor::end_gracefully(bool router, Duration longest) {
  const auto concerned = [&](const auto& child) { return (child == children_.front()) == router; };
  for (const auto& child : children_)
    if (concerned(child)) child->send(SIGTERM);
  const TimePoint deadline = clock_.now() + longest;
  while (clock_.now() < deadline) {
    const bool running = std::any_of(children_.begin(), children_.end(),
                                     [&](const auto& child) { return concerned(child) && child->running(); });
    if (!running) return true;
    if (wait_signal(kPoll) != 0) return false;
  }
  return true;
}

ChildSpec Supervisor::router_spec() const {
  ChildSpec spec{.name = "router",
                 .program = options_.program,
                 .arguments = {"penstock", "router", "-c", options_.config_file},
                 .log_file = options_.log_dir + "/router.log"};
  for (const std::string& set : options_.sets) spec.arguments.insert(spec.arguments.end(), {"--set", set});
  return spec;
}

ChildSpec Supervisor::node_spec(const NodeConfig& node) const {
  ChildSpec spec{.name = node.name,
                 .program = options_.program,
                 .arguments = {"penstock", "node", "--role", std::string(node_role_name(node.role)), "--name",
                               node.name, "-c", options_.config_file},
                 .log_file = options_.log_dir + "/" + node.name + ".log"};
  for (const std::string& set : options_.sets) spec.arguments.insert(spec.arguments.end(), {"--set", set});
  return spec;
}

int Supervisor::wait_signal(Duration longest) {
  pollfd ready{signals_.get(), POLLIN, 0};
  ::poll(&ready, 1, static_cast<int>(longest.us / 1000));
  signalfd_siginfo info;
  if (::read(signals_.get(), &info, sizeof(info)) != sizeof(info)) return 0;
  const int signal = static_cast<int>(info.ssi_signo);
  const TimePoint now = clock_.now();
  // One Ctrl-C may arrive twice, from the terminal and from a wrapper such as timeout or sudo.
  if (signal_ != 0 && now - signalled_at_ < kSameSignal) return 0;
  signalled_at_ = now;
  progress_ << ::strsignal(signal) << ": stopping" << (signal_ == 0 ? "" : " at once") << std::endl;
  if (signal_ == 0) signal_ = signal;
  return signal;
}

Status Supervisor::check_children(bool starting) {
  for (const auto& child : children_) {
    if (child->running()) continue;
    if (std::find(reported_.begin(), reported_.end(), child.get()) != reported_.end()) continue;
    reported_.push_back(child.get());
    if (starting || child == children_.front()) return fail(Error::kUnavailable, obituary(*child));
    progress_ << obituary(*child) << std::flush;
  }
  return {};
}

std::string Supervisor::obituary(const ChildProcess& child) const {
  return child.name() + " " + child.ending() + "; its last log lines (" + child.log_file() + "):\n" +
         last_lines(child.log_file(), kLogLines);
}

bool Supervisor::cluster_ready() const {
  const auto status = fetch_cluster_status(*parse_host_port(config_.router.admin), Duration::from_ms(500));
  if (!status.ok() || !status->ready) return false;
  const auto ready = std::count_if(status->nodes.begin(), status->nodes.end(),
                                   [](const NodeStatus& node) { return node.state == "ready"; });
  return ready >= std::ssize(config_.nodes);
}

}  // namespace penstock::cli
