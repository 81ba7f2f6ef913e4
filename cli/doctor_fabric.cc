#include "cli/doctor_fabric.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>

#include "base/fd.h"
#include "fabric/transport_ucx.h"

namespace penstock::cli {
namespace {

constexpr Duration kProbeMax = Duration::from_ms(20000);

// Both ends are this build on this machine, so plain values cross the socket.
Status send_bytes(int fd, const void* data, size_t bytes) {
  if (::send(fd, data, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes)) return {};
  return fail(Error::kIo, std::string("doctor's probe: ") + std::strerror(errno));
}

Status receive_bytes(int fd, void* data, size_t bytes) {
  const SystemClock clock;
  const TimePoint deadline = clock.now() + kProbeMax;
  pollfd ready{fd, POLLIN, 0};
  if (::poll(&ready, 1, static_cast<int>((deadline - clock.now()).us / 1000)) != 1)
    return fail(Error::kDeadlineExceeded, "doctor's probe: the other process does not answer");
  if (::recv(fd, data, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes)) return {};
  return fail(Error::kUnavailable, "doctor's probe: the other process has ended");
}

Status send_text(int fd, const std::string& text) {
  const uint32_t bytes = static_cast<uint32_t>(text.size());
  RETURN_IF_ERROR(send_bytes(fd, &bytes, sizeof(bytes)));
  return bytes == 0 ? Status() : send_bytes(fd, text.data(), text.size());
}

Result<std::string> receive_text(int fd) {
  uint32_t bytes = 0;
  RETURN_IF_ERROR(receive_bytes(fd, &bytes, sizeof(bytes)));
  std::string text(bytes, '\0');
  if (bytes > 0) RETURN_IF_ERROR(receive_bytes(fd, text.data(), bytes));
  return text;
}

// One of the two processes.
struct Side {
  std::unique_ptr<Transport> transport;
  LocalMemory memory;
  PeerId peer;
  MemoryDescriptor target;
};

Status send_hello(int fd, const PeerAddress& address, const MemoryDescriptor& memory) {
  const TransportIdentity& identity = address.identity;
  for (const std::string& text :
       {identity.library, identity.transports, identity.host, address.worker, memory.key})
    RETURN_IF_ERROR(send_text(fd, text));
  const uint64_t numbers[] = {identity.mm_error_handling ? uint64_t{1} : uint64_t{0},
                              identity.pid_namespace,
                              identity.pid,
                              identity.start_ticks,
                              identity.instance,
                              memory.base,
                              memory.bytes};
  return send_bytes(fd, numbers, sizeof(numbers));
}

Result<std::pair<PeerAddress, MemoryDescriptor>> receive_hello(int fd) {
  PeerAddress address;
  MemoryDescriptor memory;
  TransportIdentity& identity = address.identity;
  for (std::string* text :
       {&identity.library, &identity.transports, &identity.host, &address.worker, &memory.key}) {
    ASSIGN_OR_RETURN(*text, receive_text(fd));
  }
  uint64_t numbers[7];
  RETURN_IF_ERROR(receive_bytes(fd, numbers, sizeof(numbers)));
  identity.mm_error_handling = numbers[0] != 0;
  identity.pid_namespace = numbers[1];
  identity.pid = static_cast<uint32_t>(numbers[2]);
  identity.start_ticks = numbers[3];
  identity.instance = numbers[4];
  memory.base = numbers[5];
  memory.bytes = numbers[6];
  return std::make_pair(std::move(address), std::move(memory));
}

Result<Side> join(int fd, const std::string& transports) {
  Side side;
  UcxOptions options;
  if (!transports.empty()) options.transports = transports;
  ASSIGN_OR_RETURN(side.transport, make_ucx_transport(options));
  ASSIGN_OR_RETURN(side.memory, side.transport->allocate(LaneProbe::kBytes));
  RETURN_IF_ERROR(send_hello(fd, side.transport->address(), side.memory.descriptor()));
  ASSIGN_OR_RETURN(auto hello, receive_hello(fd));
  ASSIGN_OR_RETURN(side.peer, side.transport->connect(hello.first));
  side.target = hello.second;
  return side;
}

// The other end: moves communication forward until its parent closes the socket.
[[noreturn]] void be_target(int fd, const std::string& transports) {
  auto side = join(fd, transports);
  while (side.ok()) {
    while (side->transport->progress()) {
    }
    pollfd ready[] = {{fd, POLLIN, 0}, {side->transport->event_fd(), POLLIN, 0}};
    if (side->transport->arm()) ::poll(ready, 2, 100);
    if ((ready[0].revents & (POLLIN | POLLHUP)) != 0) break;
  }
  ::_exit(0);
}

Result<FabricFinding> probe(int fd, const std::string& transports) {
  const SystemClock clock;
  ASSIGN_OR_RETURN(Side side, join(fd, transports));
  LaneProbe lane_probe(*side.transport, clock, side.memory);
  RETURN_IF_ERROR(lane_probe.start(side.peer, side.target));
  const TimePoint deadline = clock.now() + kProbeMax;
  while (clock.now() < deadline) {
    while (side.transport->progress()) {
    }
    auto results = lane_probe.take_results();
    if (!results.empty()) {
      const TransportIdentity& identity = side.transport->address().identity;
      RETURN_IF_ERROR(results.front().status);
      return FabricFinding{identity.library, identity.transports, std::move(results.front())};
    }
    pollfd ready{side.transport->event_fd(), POLLIN, 0};
    if (side.transport->arm()) ::poll(&ready, 1, 100);
  }
  return fail(Error::kDeadlineExceeded,
              "no put completed within " + std::to_string(kProbeMax.us / 1000000) + " s");
}

}  // namespace

Result<FabricFinding> measure_fabric(const std::string& transports) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return fail(Error::kIo, std::string("socketpair: ") + std::strerror(errno));
  UniqueFd ours(ends[0]), theirs(ends[1]);
  const pid_t target = ::fork();
  if (target < 0) return fail(Error::kResourceExhausted, std::string("fork: ") + std::strerror(errno));
  if (target == 0) {
    ours.reset();
    be_target(theirs.get(), transports);
  }
  theirs.reset();
  Result<FabricFinding> finding = probe(ours.get(), transports);
  ::kill(target, SIGKILL);
  while (::waitpid(target, nullptr, 0) < 0 && errno == EINTR) {
  }
  return finding;
}

}  // namespace penstock::cli
