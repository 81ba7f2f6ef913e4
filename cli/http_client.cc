#include "cli/http_client.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>

#include "base/fd.h"

namespace penstock::cli {
namespace {

constexpr size_t kHeadersMax = 64 << 10;

Status wait_for(int fd, short events, Duration silence_max, const std::string& where) {
  pollfd poll_fd{fd, events, 0};
  int ready = 0;
  do {
    ready = ::poll(&poll_fd, 1, static_cast<int>(silence_max.us / 1000));
  } while (ready < 0 && errno == EINTR);
  if (ready == 0)
    return fail(Error::kDeadlineExceeded,
                where + ": nothing for " + std::to_string(silence_max.us / 1000) + " ms");
  return {};
}

Result<UniqueFd> connect_to(const HttpRequest& request, const std::string& where) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(request.server.port);
  if (const int error = ::getaddrinfo(request.server.host.c_str(), port.c_str(), &hints, &found); error != 0)
    return fail(Error::kNotFound, where + ": " + ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> guard(found, &::freeaddrinfo);
  int error = 0;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    UniqueFd fd(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.valid()) continue;
    const int one = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (::connect(fd.get(), at->ai_addr, at->ai_addrlen) == 0) return fd;
    if (errno == EINPROGRESS) {
      RETURN_IF_ERROR(wait_for(fd.get(), POLLOUT, request.silence_max, where));
      socklen_t length = sizeof(error);
      ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
      if (error == 0) return fd;
    } else {
      error = errno;
    }
  }
  return fail(Error::kUnavailable, where + ": " + std::strerror(error));
}

Status send_all(int fd, std::string_view data, Duration silence_max, const std::string& where) {
  while (!data.empty()) {
    const ssize_t sent = ::send(fd, data.data(), data.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      data.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      RETURN_IF_ERROR(wait_for(fd, POLLOUT, silence_max, where));
    } else if (errno != EINTR) {
      return fail(Error::kUnavailable, where + ": " + std::strerror(errno));
    }
  }
  return {};
}

// The next bytes; empty at the end of the connection.
Result<std::string> receive(int fd, Duration silence_max, const std::string& where) {
  std::string buffer(16 << 10, '\0');
  while (true) {
    const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (got >= 0) {
      buffer.resize(static_cast<size_t>(got));
      return buffer;
    }
    if (errno == EAGAIN) {
      RETURN_IF_ERROR(wait_for(fd, POLLIN, silence_max, where));
    } else if (errno != EINTR) {
      return fail(Error::kUnavailable, where + ": " + std::strerror(errno));
    }
  }
}

std::string request_text(const HttpRequest& request) {
  std::string text = request.method + " " + request.target + " HTTP/1.1\r\nHost: " + request.server.text() +
                     "\r\nConnection: close\r\n";
  for (const auto& [name, value] : request.headers) text += name + ": " + value + "\r\n";
  if (!request.body.empty()) text += "Content-Length: " + std::to_string(request.body.size()) + "\r\n";
  return text + "\r\n" + request.body;
}

struct Head {
  int status = 0;
  bool chunked = false;
  std::optional<size_t> length;
};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

Result<Head> parse_head(std::string_view text, const std::string& where) {
  Head head;
  const Failure bad = fail(Error::kCorrupt, where + ": the answer is not HTTP");
  if (text.size() < 12 || text.rfind("HTTP/1.", 0) != 0) return bad;
  if (std::from_chars(text.data() + 9, text.data() + 12, head.status).ptr != text.data() + 12) return bad;
  for (size_t at = text.find("\r\n"); at != std::string_view::npos && at + 2 < text.size();) {
    const size_t end = text.find("\r\n", at + 2);
    const std::string line = lower(text.substr(at + 2, end == std::string_view::npos ? end : end - at - 2));
    if (line.rfind("transfer-encoding:", 0) == 0) head.chunked = line.find("chunked") != std::string::npos;
    if (line.rfind("content-length:", 0) == 0) head.length = std::strtoull(line.c_str() + 15, nullptr, 10);
    at = end;
  }
  return head;
}

// Reads the body, piece by piece, to `take`.
Status read_body(int fd, const HttpRequest& request, const Head& head, std::string piece,
                 const std::string& where, const BodyCallback& take) {
  ChunkedDecoder chunks;
  size_t received = 0;
  while (true) {
    if (head.chunked) {
      std::string decoded;
      RETURN_IF_ERROR(chunks.feed(piece, decoded).with_context(where));
      if (!decoded.empty()) take(decoded);
      if (chunks.done()) return {};
    } else {
      received += piece.size();
      if (!piece.empty()) take(piece);
      if (head.length.has_value() && received >= *head.length) return {};
    }
    ASSIGN_OR_RETURN(piece, receive(fd, request.silence_max, where));
    if (!piece.empty()) continue;
    if (!head.chunked && !head.length.has_value()) return {};
    return fail(Error::kUnavailable, where + ": the connection ended inside the answer");
  }
}

}  // namespace

Result<HttpResponse> http_request(const HttpRequest& request, const BodyCallback& on_body) {
  const std::string where = request.method + " http://" + request.server.text() + request.target;
  ASSIGN_OR_RETURN(const UniqueFd fd, connect_to(request, where));
  RETURN_IF_ERROR(send_all(fd.get(), request_text(request), request.silence_max, where));

  std::string text;
  size_t end = std::string::npos;
  while ((end = text.find("\r\n\r\n")) == std::string::npos) {
    ASSIGN_OR_RETURN(const std::string piece, receive(fd.get(), request.silence_max, where));
    if (piece.empty()) return fail(Error::kUnavailable, where + ": the connection ended before an answer");
    text += piece;
    if (text.size() > kHeadersMax) return fail(Error::kCorrupt, where + ": endless headers");
  }
  ASSIGN_OR_RETURN(const Head head, parse_head(std::string_view(text).substr(0, end), where));
  HttpResponse response{head.status, {}};
  const bool stream = on_body && head.status == 200;
  RETURN_IF_ERROR(
      read_body(fd.get(), request, head, text.substr(end + 4), where, [&](std::string_view piece) {
        if (stream)
          on_body(piece);
        else
          response.body += piece;
      }));
  return response;
}

Status ChunkedDecoder::feed(std::string_view piece, std::string& out) {
  while (!piece.empty() && state_ != State::kDone) {
    if (state_ == State::kData) {
      const size_t take = std::min(left_, piece.size());
      out += piece.substr(0, take);
      piece.remove_prefix(take);
      left_ -= take;
      if (left_ == 0) state_ = State::kDataEnd;
      continue;
    }
    const char c = piece.front();
    piece.remove_prefix(1);
    if (c != '\n') {
      if (line_.size() > 4096) return fail(Error::kCorrupt, "endless chunk header");
      line_ += c;
      continue;
    }
    if (!line_.empty() && line_.back() == '\r') line_.pop_back();
    const std::string line = std::exchange(line_, {});
    if (state_ == State::kDataEnd) {
      if (!line.empty()) return fail(Error::kCorrupt, "a chunk is longer than its size");
      state_ = State::kSize;
    } else if (state_ == State::kTrailer) {
      if (line.empty()) state_ = State::kDone;
    } else {
      const auto [at, error] = std::from_chars(line.data(), line.data() + line.size(), left_, 16);
      if (error != std::errc() || at == line.data()) return fail(Error::kCorrupt, "bad chunk size");
      state_ = left_ == 0 ? State::kTrailer : State::kData;
    }
  }
  return {};
}

}  // namespace penstock::cli
