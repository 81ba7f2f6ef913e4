#include "fabric/process_watch.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace penstock {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Field 22 of /proc/PID/stat; 0 when there is no such process. The command (field 2) may hold spaces and
// parentheses, so counting starts behind the last ')'.
uint64_t start_ticks_of(uint32_t pid) {
  const std::string line = first_line("/proc/" + std::to_string(pid) + "/stat");
  const size_t behind_command = line.rfind(')');
  if (behind_command == std::string::npos) return 0;
  std::istringstream fields(line.substr(behind_command + 1));
  std::string field;
  for (int number = 3; number <= 22; ++number) fields >> field;
  return std::strtoull(field.c_str(), nullptr, 10);
}

uint64_t pid_namespace_inode() {
  struct stat info {};
  return ::stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

}  // namespace

Result<TransportIdentity> identify_this_process() {
  TransportIdentity identity;
  identity.host = first_line("/proc/sys/kernel/random/boot_id");
  if (identity.host.empty())
    return fail(Error::kIo, "/proc/sys/kernel/random/boot_id: cannot be read; mount /proc");
  identity.pid_namespace = pid_namespace_inode();
  identity.pid = static_cast<uint32_t>(::getpid());
  identity.start_ticks = start_ticks_of(identity.pid);
  while (identity.instance == 0) {
    if (::getrandom(&identity.instance, sizeof(identity.instance), 0) != sizeof(identity.instance))
      return fail(Error::kIo, std::string("getrandom: ") + std::strerror(errno));
  }
  return identity;
}

Result<UniqueFd> watch_process(const TransportIdentity& identity) {
  const std::string who = "process " + std::to_string(identity.pid);
  if (identity.pid_namespace != pid_namespace_inode())
    return fail(Error::kUnsupported,
                who + " lives in another pid namespace: its exit cannot be seen from here");
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, identity.pid, 0)));
  if (!pidfd.valid() && errno == ESRCH) return fail(Error::kUnavailable, who + " has exited");
  if (!pidfd.valid()) return fail(Error::kUnsupported, "pidfd_open of " + who + ": " + std::strerror(errno));
  // Only now: the pid cannot be reused behind an open pidfd without its start time telling.
  if (start_ticks_of(identity.pid) != identity.start_ticks)
    return fail(Error::kUnavailable, who + " has exited; its pid belongs to another process now");
  if (has_exited(pidfd)) return fail(Error::kUnavailable, who + " has exited");  // a zombie
  return pidfd;
}

bool has_exited(const UniqueFd& pidfd) {
  pollfd entry{pidfd.get(), POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1 && (entry.revents & POLLIN) != 0;
}

bool still_maps(uint32_t pid, uint64_t address) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  if (!maps.is_open() && errno == EACCES) return true;
  for (std::string line; std::getline(maps, line);) {  // "7f12c0000000-7f12c0400000 rw-s ..."
    char* rest = nullptr;
    const uint64_t start = std::strtoull(line.c_str(), &rest, 16);
    if (*rest != '-') continue;
    if (address >= start && address < std::strtoull(rest + 1, nullptr, 16)) return true;
  }
  return false;
}

bool may_map_memory(const std::string& transports) {
  std::istringstream list(transports);
  for (std::string name; std::getline(list, name, ',');) {
    const bool network = name == "tcp" || name == "self" || name == "ib" || name.starts_with("rc") ||
                         name.starts_with("ud") || name.starts_with("dc");
    if (!network) return true;
  }
  return false;
}

bool shared_memory_possible(const TransportIdentity& a, const TransportIdentity& b) {
  return a.host == b.host && may_map_memory(a.transports);
}

}  // namespace penstock
