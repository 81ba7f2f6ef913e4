#include "cli/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>

#include "base/fd.h"

namespace penstock::cli {
namespace {

constexpr int kExecFailed = 127;

std::vector<char*> c_strings(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (const std::string& string : strings) out.push_back(const_cast<char*>(string.c_str()));
  out.push_back(nullptr);
  return out;
}

// Runs in the child between fork and exec, where only calls that are safe after a fork may be made.
[[noreturn]] void become(const ChildSpec& spec, char* const* arguments, pid_t parent, int log, int report) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kExecFailed);  // the parent went before prctl
  if (log >= 0) {
    ::setpgid(0, 0);
    const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::execv(spec.program.c_str(), arguments);
  const int error = errno;
  const auto written = ::write(report, &error, sizeof(error));
  static_cast<void>(written);
  ::_exit(kExecFailed);
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const ChildSpec& spec) {
  UniqueFd log;
  if (!spec.log_file.empty()) {
    log.reset(::open(spec.log_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644));
    if (!log.valid())
      return fail(Error::kIo, "log file " + spec.log_file + ": " + std::strerror(errno) +
                                  ": set log.dir to a folder that can be written");
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail(Error::kIo, std::string("pipe: ") + std::strerror(errno));
  UniqueFd read_end(ends[0]), write_end(ends[1]);

  const std::vector<char*> arguments = c_strings(spec.arguments);
  // setenv before the fork, undone after it: after a fork nothing may allocate.
  std::vector<std::pair<std::string, std::optional<std::string>>> before;
  for (const auto& [name, value] : spec.environment) {
    const char* old = std::getenv(name.c_str());
    before.emplace_back(name, old == nullptr ? std::nullopt : std::optional<std::string>(old));
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) become(spec, arguments.data(), parent, log.get(), write_end.get());
  for (const auto& [name, old] : before) {
    if (old.has_value())
      ::setenv(name.c_str(), old->c_str(), 1);
    else
      ::unsetenv(name.c_str());
  }
  if (pid < 0) return fail(Error::kResourceExhausted, spec.name + ": fork: " + std::strerror(errno));

  ChildProcess child(spec, pid);
  write_end.reset();
  int error = 0;
  if (::read(read_end.get(), &error, sizeof(error)) ==
      sizeof(error))  // exec closes the pipe when it succeeds
    return fail(Error::kNotFound, spec.name + ": cannot run " + spec.program + ": " + std::strerror(error));
  return child;
}

bool ChildProcess::running() {
  if (pid_ < 0 || status_.has_value()) return false;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return true;
  status_ = status;
  return false;
}

int ChildProcess::exit_code() const {
  const int status = status_.value_or(0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string ChildProcess::ending() const {
  const int status = status_.value_or(0);
  if (WIFSIGNALED(status))
    return "was killed by signal " + std::to_string(WTERMSIG(status)) + " (" + ::strsignal(WTERMSIG(status)) +
           ")";
  return "exited with code " + std::to_string(WEXITSTATUS(status));
}

void ChildProcess::send(int signal) {
  if (!running()) return;
  if (spec_.log_file.empty() || ::kill(-pid_, signal) != 0) ::kill(pid_, signal);
}

void ChildProcess::kill_now() {
  if (!running()) return;
  send(SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  status_ = status;
}

std::string last_lines(const std::string& path, size_t count) {
  std::ifstream in(path);
  std::deque<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(std::move(line));
    if (lines.size() > count) lines.pop_front();
  }
  std::string out;
  for (const std::string& line : lines) out += "    " + line + "\n";
  return out;
}

}  // namespace penstock::cli
