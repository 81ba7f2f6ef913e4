// A blocking HTTP client for tests: raw bytes out, whole answers in, so that every byte can be checked.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <string>

#include "base/fd.h"

namespace penstock::router {

struct ClientResponse {
  int status = 0;
  std::string head, body;  // body without chunk framing
  std::string header(const std::string& name) const {
    const size_t at = head.find("\r\n" + name + ": ");
    if (at == std::string::npos) return "";
    const size_t begin = at + name.size() + 4;
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }
};

class HttpClient {
 public:
  explicit HttpClient(uint16_t port, int receive_buffer = 0) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    CHECK(fd_.valid());
    if (receive_buffer > 0)
      ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    const timeval patience{20, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  bool connected() const { return connected_; }
  void close() { fd_.reset(); }

  bool send(const std::string& bytes) {
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t n = ::send(fd_.get(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
      if (n <= 0) return false;
      done += static_cast<size_t>(n);
    }
    return true;
  }
  bool get(const std::string& path, const std::string& headers = "") {
    return send("GET " + path + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n");
  }
  bool post(const std::string& path, const std::string& body, const std::string& headers = "") {
    return send("POST " + path +
                " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n" + headers + "\r\n" + body);
  }

  // One more read; false at the end of the stream.
  bool read_some() {
    char bytes[16384];
    const ssize_t n = ::recv(fd_.get(), bytes, sizeof(bytes), 0);
    if (n <= 0) return false;
    buffer_.append(bytes, static_cast<size_t>(n));
    return true;
  }
  // What has arrived and was not taken by response().
  const std::string& buffered() const { return buffer_; }
  // Until `text` has arrived; false when the stream ends before.
  bool read_until(const std::string& text) {
    while (buffer_.find(text) == std::string::npos) {
      if (!read_some()) return false;
    }
    return true;
  }

  // The next whole response. With `head_only` no body follows (HEAD).
  ClientResponse response(bool head_only = false) {
    ClientResponse out;
    if (!read_until("\r\n\r\n")) return out;
    const size_t end = buffer_.find("\r\n\r\n");
    out.head = buffer_.substr(0, end + 2);
    buffer_.erase(0, end + 4);
    out.status = std::atoi(out.head.c_str() + 9);
    if (head_only || out.status == 100) return out;
    if (out.header("transfer-encoding") == "chunked") {
      while (read_chunk(out.body)) {
      }
      return out;
    }
    const size_t length = static_cast<size_t>(std::atoll(out.header("content-length").c_str()));
    while (buffer_.size() < length && read_some()) {
    }
    out.body = buffer_.substr(0, length);
    buffer_.erase(0, length);
    return out;
  }

  // Appends one chunk of a chunked body; false after the last.
  bool read_chunk(std::string& body) {
    if (!read_until("\r\n")) return false;
    const size_t size = std::strtoul(buffer_.c_str(), nullptr, 16);
    const size_t begin = buffer_.find("\r\n") + 2;
    while (buffer_.size() < begin + size + 2 && read_some()) {
    }
    body += buffer_.substr(begin, size);
    buffer_.erase(0, begin + size + 2);
    return size > 0;
  }

 private:
  UniqueFd fd_;
  std::string buffer_;
  bool connected_ = false;
};

}  // namespace penstock::router
