// A server for one test: accepts connections on a free loopback port and answers each with a fixed text.
// Owns its thread; both end with it.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "topology/cluster_config.h"

namespace penstock::cli {

class LocalServer {
 public:
  // `pieces` are sent one by one, with a pause between them, once a whole request has come; then it closes.
  explicit LocalServer(std::vector<std::string> pieces, bool answer = true)
      : pieces_(std::move(pieces)),
        answer_(answer),
        listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    CHECK_EQ(::listen(listener_.get(), 8), 0);
    socklen_t length = sizeof(address);
    CHECK_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~LocalServer() {
    stop_ = true;
    thread_.join();
  }
  HostPort address() const { return {"127.0.0.1", port_}; }
  std::string request() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return request_;
  }

 private:
  void serve() {
    while (!stop_) {
      pollfd ready{listener_.get(), POLLIN, 0};
      if (::poll(&ready, 1, 20) != 1) continue;
      const UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      read_request(client.get());
      if (!answer_) {
        while (!stop_) ::poll(nullptr, 0, 5);
        return;
      }
      for (const std::string& piece : pieces_) {
        static_cast<void>(::send(client.get(), piece.data(), piece.size(), MSG_NOSIGNAL));
        ::poll(nullptr, 0, 5);
      }
    }
  }
  void read_request(int client) {
    std::string text;
    char buffer[4096];
    size_t wanted = std::string::npos;
    while (text.size() < wanted) {
      const ssize_t got = ::recv(client, buffer, sizeof(buffer), 0);
      if (got <= 0) break;
      text.append(buffer, static_cast<size_t>(got));
      const size_t head = text.find("\r\n\r\n");
      if (head == std::string::npos) continue;
      const size_t length = text.find("Content-Length: ");
      wanted = head + 4 + (length == std::string::npos ? 0 : std::stoul(text.substr(length + 16)));
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    request_ = text;
  }

  std::vector<std::string> pieces_;
  bool answer_;
  UniqueFd listener_;
  uint16_t port_ = 0;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::string request_;
  std::thread thread_;
};

}  // namespace penstock::cli
