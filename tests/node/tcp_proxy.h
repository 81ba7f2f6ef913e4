// A TCP proxy on loopback whose connections can die without saying so: cut() stops carrying bytes over those
// that stand, and closes nothing. New ones work.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/fd.h"

namespace penstock {

class TcpProxy {
 public:
  // `target`: tcp://127.0.0.1:port.
  explicit TcpProxy(const std::string& target)
      : target_port_(static_cast<uint16_t>(std::stoi(target.substr(target.rfind(':') + 1)))),
        listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = loopback(0);
    CHECK_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    CHECK_EQ(::listen(listener_.get(), 16), 0);
    socklen_t length = sizeof(address);
    CHECK_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    endpoint_ = "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { run(); });
  }
  ~TcpProxy() {
    stop_ = true;
    wake_.notify();
    thread_.join();
  }
  const std::string& endpoint() const { return endpoint_; }
  // Holds from the moment that it returns.
  void cut() {
    const int before = cuts_done_;
    ++cuts_asked_;
    wake_.notify();
    cuts_done_.wait(before);
  }

 private:
  struct Connection {
    UniqueFd ends[2];
    bool dead = false;
  };
  static sockaddr_in loopback(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  void run() {
    while (!stop_) {
      std::vector<pollfd> waiting = {{wake_.fd(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      for (const Connection& connection : connections_) {
        for (const UniqueFd& end : connection.ends)
          waiting.push_back({connection.dead ? -1 : end.get(), POLLIN, 0});
      }
      ::poll(waiting.data(), waiting.size(), -1);
      wake_.drain();
      const size_t known = connections_.size();
      if ((waiting[1].revents & POLLIN) != 0) accept();
      for (size_t i = 0; i < known; ++i) {
        for (size_t side = 0; side < 2; ++side) {
          if (waiting[2 + 2 * i + side].revents != 0) carry(connections_[i], side);
        }
      }
      if (cuts_done_ == cuts_asked_) continue;
      for (Connection& connection : connections_) connection.dead = true;
      cuts_done_ = cuts_asked_.load();
      cuts_done_.notify_all();
    }
  }
  void accept() {
    Connection connection;
    connection.ends[0].reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    connection.ends[1].reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = loopback(target_port_);
    if (::connect(connection.ends[1].get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0)
      connections_.push_back(std::move(connection));
  }
  static void carry(Connection& connection, size_t from) {
    char bytes[4096];
    const ssize_t got = ::recv(connection.ends[from].get(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got > 0) {
      // What tests send is small: the other end's buffer takes it at once.
      connection.dead =
          ::send(connection.ends[1 - from].get(), bytes, static_cast<size_t>(got), MSG_NOSIGNAL) != got;
    } else {
      connection.dead = true;
      for (UniqueFd& end : connection.ends) end.reset();
    }
  }

  uint16_t target_port_;
  UniqueFd listener_;
  std::string endpoint_;
  WakeEvent wake_;
  std::atomic<bool> stop_{false};
  std::atomic<int> cuts_asked_{0}, cuts_done_{0};
  std::vector<Connection> connections_;
  std::thread thread_;
};

}  // namespace penstock
