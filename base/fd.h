// RAII for file descriptors, and an eventfd that wakes an epoll loop.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "base/check.h"

namespace penstock {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~UniqueFd() { reset(); }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

// notify() from any thread makes fd() readable; drain() makes it quiet again. Notifications coalesce.
class WakeEvent {
 public:
  WakeEvent() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) { CHECK(fd_.valid()); }
  int fd() const { return fd_.get(); }
  void notify() {
    const uint64_t one = 1;
    const auto written = ::write(fd_.get(), &one, sizeof(one));  // EAGAIN: already readable
    static_cast<void>(written);
  }
  void drain() {
    uint64_t count = 0;
    const auto read = ::read(fd_.get(), &count, sizeof(count));
    static_cast<void>(read);
  }

 private:
  UniqueFd fd_;
};

}  // namespace penstock
