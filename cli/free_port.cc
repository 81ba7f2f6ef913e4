#include "cli/free_port.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/fd.h"

namespace penstock::cli {
namespace {

constexpr int kPortsTried = 200;

// The port that was bound, for a while.
Result<uint16_t> bind_once(const HostPort& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  const std::string host = address.host == "*" ? "0.0.0.0" : address.host;
  if (const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0)
    return fail(Error::kNotFound, address.text() + ": " + ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> guard(found, &::freeaddrinfo);
  const UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int one = 1;  // as servers do: a port in TIME_WAIT is free, one with a listener is not
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (!fd.valid() || ::bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0 || ::listen(fd.get(), 1) != 0)
    return fail(Error::kUnavailable, address.text() + ": " + std::strerror(errno));
  sockaddr_storage bound{};
  socklen_t length = sizeof(bound);
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &length);
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                           : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
}

}  // namespace

Status check_port_free(const HostPort& address) {
  auto bound = bind_once(address);
  if (!bound.ok()) return bound.failure();
  return {};
}

Result<HostPort> next_free_port(HostPort address, const std::set<uint16_t>& avoid) {
  const HostPort first = address;
  Failure last;
  for (int tried = 0; tried <= kPortsTried; ++tried) {
    if (!avoid.contains(address.port)) {
      auto bound = bind_once(address);
      if (bound.ok()) {
        address.port = *bound;
        return address;
      }
      last = bound.failure();
      if (last.code != Error::kUnavailable) return last;
    }
    if (address.port == 65535) break;
    ++address.port;
  }
  return fail(Error::kUnavailable, "no free port from " + first.text() + " on (" + last.message + ")");
}

}  // namespace penstock::cli
