// A forked child that runs one side of a test, and a channel to it. The parent never touches UCX, so that
// nothing of it is inherited.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/fd.h"

namespace penstock {

// Whole messages, both ways, over a socket pair.
class Channel {
 public:
  explicit Channel(UniqueFd fd) : fd_(std::move(fd)) {}
  void send(const std::string& message) const {
    const auto sent = ::send(fd_.get(), message.data(), message.size(), MSG_NOSIGNAL);
    static_cast<void>(sent);  // the other side may have been killed on purpose
  }
  // Empty when the other side is gone or nothing came in time.
  std::optional<std::string> receive(int timeout_ms = 20000) const {
    pollfd entry{fd_.get(), POLLIN, 0};
    if (::poll(&entry, 1, timeout_ms) != 1) return std::nullopt;
    std::string message(1 << 16, '\0');
    const ssize_t length = ::recv(fd_.get(), message.data(), message.size(), 0);
    if (length <= 0) return std::nullopt;
    message.resize(static_cast<size_t>(length));
    return message;
  }
  bool ready() const {
    pollfd entry{fd_.get(), POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
  }
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

class ChildProcess {
 public:
  // `environment`: "NAME=value" set in the child before `body` runs.
  ChildProcess(const std::function<void(Channel&)>& body, const std::vector<std::string>& environment = {}) {
    int pair[2];
    CHECK_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    pid_ = ::fork();
    CHECK_GE(pid_, 0);
    if (pid_ == 0) {
      ::close(pair[0]);
      for (const std::string& setting : environment) ::putenv(const_cast<char*>(setting.c_str()));
      Channel channel{UniqueFd(pair[1])};
      body(channel);
      ::_exit(0);
    }
    ::close(pair[1]);
    channel_.emplace(UniqueFd(pair[0]));
  }
  ~ChildProcess() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  Channel& channel() { return *channel_; }
  pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  // Waits until the child has stopped (SIGSTOP), so that what follows cannot race with it.
  void wait_stopped() const {
    int status = 0;
    CHECK_EQ(::waitpid(pid_, &status, WUNTRACED), pid_);
    CHECK(WIFSTOPPED(status));
  }
  // Waits until the child has exited, and leaves it a zombie.
  void wait_dead() const {
    siginfo_t info{};
    CHECK_EQ(::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT), 0);
  }
  // Exit code, or -signal.
  int reap() {
    int status = 0;
    CHECK_EQ(::waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  std::optional<Channel> channel_;
};

}  // namespace penstock
