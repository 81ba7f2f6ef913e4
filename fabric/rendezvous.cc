#include "fabric/rendezvous.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <thread>

#include "base/fd.h"

namespace penstock {
namespace {

constexpr uint32_t kMagic = 0x50535232;  // "PSR2"
constexpr uint32_t kAddressBytesMax = 1 << 20;
constexpr int kRanksMax = 1 << 14;  // what an endpoint's message header holds
constexpr auto kRetry = std::chrono::milliseconds(20);

struct Hello {
  uint32_t magic = kMagic;
  int32_t rank = 0;
  int32_t world_size = 0;
  uint32_t address_bytes = 0;
};
// Followed by the addresses, each with its length, or by the text of an error.
struct Answer {
  uint32_t magic = kMagic;
  uint32_t error = 0;  // 1 + Error, or 0
  uint32_t bytes = 0;
};

std::string errno_text(const std::string& call) { return call + ": " + std::strerror(errno); }

int milliseconds_until(TimePoint end) {
  const Duration left = end - SystemClock().now();
  return static_cast<int>(std::max<int64_t>(0, (left.us + 999) / 1000));
}

Status wait_for(int fd, short events, TimePoint end) {
  pollfd entry{fd, events, 0};
  const int ready = ::poll(&entry, 1, milliseconds_until(end));
  if (ready > 0) return {};
  if (ready == 0) return fail(Error::kDeadlineExceeded, "no answer in time");
  return fail(Error::kIo, errno_text("poll"));
}

Status read_all(int fd, void* data, size_t bytes, TimePoint end) {
  auto* place = static_cast<char*>(data);
  while (bytes > 0) {
    RETURN_IF_ERROR(wait_for(fd, POLLIN, end));
    const ssize_t got = ::recv(fd, place, bytes, 0);
    if (got == 0) return fail(Error::kUnavailable, "the connection was closed");
    if (got < 0 && errno != EINTR && errno != EAGAIN) return fail(Error::kIo, errno_text("recv"));
    if (got < 0) continue;
    place += got;
    bytes -= static_cast<size_t>(got);
  }
  return {};
}

Status write_all(int fd, const std::string& data, TimePoint end) {
  size_t sent = 0;
  while (sent < data.size()) {
    RETURN_IF_ERROR(wait_for(fd, POLLOUT, end));
    const ssize_t put = ::send(fd, data.data() + sent, data.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0 && errno != EINTR && errno != EAGAIN) return fail(Error::kIo, errno_text("send"));
    if (put > 0) sent += static_cast<size_t>(put);
  }
  return {};
}

template <typename T>
void append(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string place_of(const RankEnvironment& environment) {
  return environment.master_address + ":" + std::to_string(environment.master_port);
}

struct AddressDeleter {
  void operator()(addrinfo* info) const { ::freeaddrinfo(info); }
};
using AddressList = std::unique_ptr<addrinfo, AddressDeleter>;

Result<AddressList> resolve(const RankEnvironment& environment) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(environment.master_port);
  const int status = ::getaddrinfo(environment.master_address.c_str(), port.c_str(), &hints, &found);
  if (status != 0)
    return fail(Error::kInvalidArgument,
                "MASTER_ADDR " + environment.master_address + ": " + ::gai_strerror(status));
  return AddressList(found);
}

// ---- rank 0 ----

struct Arrival {
  UniqueFd fd;
  std::string address;
};

Result<UniqueFd> listen_at(const RankEnvironment& environment) {
  ASSIGN_OR_RETURN(const AddressList list, resolve(environment));
  UniqueFd fd(::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int one = 1;
  if (!fd.valid() || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
      ::bind(fd.get(), list->ai_addr, list->ai_addrlen) != 0 || ::listen(fd.get(), SOMAXCONN) != 0)
    return fail(Error::kIo, errno_text("rank 0 cannot listen at " + place_of(environment)));
  return fd;
}

// One rank's hello; the failure is for everybody. Strangers (no magic) are let go without a word.
Status take_arrival(const RankEnvironment& environment, UniqueFd fd, std::vector<Arrival>& arrivals,
                    TimePoint end) {
  Hello hello;
  if (!read_all(fd.get(), &hello, sizeof(hello), end).ok() || hello.magic != kMagic) return {};
  const std::string who = "rank " + std::to_string(hello.rank);
  const bool strange = hello.rank < 1 || hello.rank >= environment.world_size;
  std::string wrong;
  if (hello.world_size != environment.world_size)
    wrong = who + " has world size " + std::to_string(hello.world_size) + ", rank 0 has " +
            std::to_string(environment.world_size) + ": set WORLD_SIZE alike";
  else if (hello.rank == 0 || (!strange && arrivals[static_cast<size_t>(hello.rank)].fd.valid()))
    wrong = "two processes are " + who + ": give each its own RANK";
  else if (strange || hello.address_bytes > kAddressBytesMax)
    wrong = who + " is not of a world of " + std::to_string(environment.world_size);
  if (!wrong.empty()) {
    arrivals.push_back({std::move(fd), ""});  // hears the error, too
    return fail(Error::kInvalidArgument, wrong);
  }
  Arrival& arrival = arrivals[static_cast<size_t>(hello.rank)];
  arrival.address.resize(hello.address_bytes);
  RETURN_IF_ERROR(read_all(fd.get(), arrival.address.data(), arrival.address.size(), end).with_context(who));
  arrival.fd = std::move(fd);
  return {};
}

Status gather_arrivals(const RankEnvironment& environment, int listener, std::vector<Arrival>& arrivals,
                       TimePoint end) {
  for (;;) {
    std::string absent;
    for (int rank = 1; rank < environment.world_size; ++rank)
      if (!arrivals[static_cast<size_t>(rank)].fd.valid())
        absent += (absent.empty() ? "" : ", ") + std::to_string(rank);
    if (absent.empty()) return {};
    if (const Status waited = wait_for(listener, POLLIN, end); !waited.ok())
      return fail(waited.code(), "of " + std::to_string(environment.world_size) +
                                     " ranks these did not come to " + place_of(environment) + ": " + absent);
    UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd.valid()) continue;
    RETURN_IF_ERROR(take_arrival(environment, std::move(fd), arrivals, end));
  }
}

Result<std::vector<std::string>> serve(const RankEnvironment& environment, const std::string& mine,
                                       TimePoint end) {
  ASSIGN_OR_RETURN(const UniqueFd listener, listen_at(environment));
  std::vector<Arrival> arrivals(static_cast<size_t>(environment.world_size));
  arrivals[0].address = mine;
  const Status gathered = gather_arrivals(environment, listener.get(), arrivals, end);
  std::string body;
  std::vector<std::string> addresses;
  for (Arrival& arrival : arrivals) {
    append(body, static_cast<uint32_t>(arrival.address.size()));
    body += arrival.address;
    addresses.push_back(arrival.address);
  }
  if (!gathered.ok()) body = gathered.message();
  Answer answer;
  answer.error = gathered.ok() ? 0 : 1 + static_cast<uint32_t>(gathered.code());
  answer.bytes = static_cast<uint32_t>(body.size());
  std::string message;
  append(message, answer);
  message += body;
  constexpr Duration kForAnswers = Duration::from_ms(5000);
  const TimePoint answers_end = std::max(end, SystemClock().now() + kForAnswers);
  for (size_t rank = 1; rank < arrivals.size(); ++rank) {
    if (!arrivals[rank].fd.valid()) continue;
    const Status sent = write_all(arrivals[rank].fd.get(), message, answers_end);
    if (!sent.ok() && gathered.ok())
      return fail(sent.code(), "rank " + std::to_string(rank) + ": " + sent.message());
  }
  if (!gathered.ok()) return gathered.failure();
  return addresses;
}

// ---- the others ----

Result<UniqueFd> reach(const RankEnvironment& environment, TimePoint end) {
  ASSIGN_OR_RETURN(const AddressList list, resolve(environment));
  for (;;) {
    for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
      UniqueFd fd(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (fd.valid() && ::connect(fd.get(), at->ai_addr, at->ai_addrlen) == 0) return fd;
    }
    if (SystemClock().now() > end)
      return fail(Error::kDeadlineExceeded,
                  errno_text("rank 0 was not reached at " + place_of(environment)) + "; is it running?");
    std::this_thread::sleep_for(kRetry);  // rank 0 may start later than we
  }
}

Result<std::vector<std::string>> parse_addresses(const std::string& body, int world_size) {
  std::vector<std::string> addresses;
  size_t at = 0;
  for (int rank = 0; rank < world_size; ++rank) {
    uint32_t bytes = 0;
    if (body.size() - at < sizeof(bytes)) return fail(Error::kCorrupt, "rank 0's answer ends early");
    std::memcpy(&bytes, body.data() + at, sizeof(bytes));
    at += sizeof(bytes);
    if (body.size() - at < bytes) return fail(Error::kCorrupt, "rank 0's answer ends early");
    addresses.push_back(body.substr(at, bytes));
    at += bytes;
  }
  return addresses;
}

Result<std::vector<std::string>> visit(const RankEnvironment& environment, const std::string& mine,
                                       TimePoint end) {
  ASSIGN_OR_RETURN(const UniqueFd fd, reach(environment, end));
  Hello hello;
  hello.rank = environment.rank;
  hello.world_size = environment.world_size;
  hello.address_bytes = static_cast<uint32_t>(mine.size());
  std::string message;
  append(message, hello);
  const std::string where = "rank 0 at " + place_of(environment);
  RETURN_IF_ERROR(write_all(fd.get(), message + mine, end).with_context(where));
  // Rank 0 names who is missing when its time is up, so this side waits a little longer.
  constexpr Duration kForAnswer = Duration::from_ms(5000);
  Answer answer;
  RETURN_IF_ERROR(read_all(fd.get(), &answer, sizeof(answer), end + kForAnswer).with_context(where));
  if (answer.magic != kMagic) return fail(Error::kIncompatible, where + ": not a rendezvous of this version");
  std::string body(answer.bytes, '\0');
  RETURN_IF_ERROR(read_all(fd.get(), body.data(), body.size(), end + kForAnswer).with_context(where));
  if (answer.error != 0) return fail(static_cast<Error>(answer.error - 1), body);
  return parse_addresses(body, environment.world_size);
}

Result<int> read_number(const char* name, const char* text, int least, int most) {
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stopped != end || value < least || value > most)
    return fail(Error::kInvalidArgument, std::string(name) + "=" + text + ": a number from " +
                                             std::to_string(least) + " to " + std::to_string(most));
  return value;
}

}  // namespace

Result<RankEnvironment> read_rank_environment(const std::function<const char*(const char*)>& lookup) {
  RankEnvironment environment;
  const char* rank = lookup("RANK");
  const char* world_size = lookup("WORLD_SIZE");
  if ((rank == nullptr) != (world_size == nullptr))
    return fail(Error::kInvalidArgument, "RANK and WORLD_SIZE: set both, or neither");
  if (rank != nullptr) {
    ASSIGN_OR_RETURN(environment.world_size, read_number("WORLD_SIZE", world_size, 1, kRanksMax));
    ASSIGN_OR_RETURN(environment.rank, read_number("RANK", rank, 0, environment.world_size - 1));
  }
  if (const char* address = lookup("MASTER_ADDR"); address != nullptr) environment.master_address = address;
  if (const char* port = lookup("MASTER_PORT"); port != nullptr) {
    ASSIGN_OR_RETURN(const int number, read_number("MASTER_PORT", port, 1, 65535));
    environment.master_port = static_cast<uint16_t>(number);
  }
  return environment;
}

Result<std::vector<std::string>> exchange_addresses(const RankEnvironment& environment,
                                                    const std::string& mine, Duration timeout) {
  if (environment.world_size == 1) return std::vector<std::string>{mine};
  const TimePoint end = SystemClock().now() + timeout;
  return environment.rank == 0 ? serve(environment, mine, end) : visit(environment, mine, end);
}

}  // namespace penstock
