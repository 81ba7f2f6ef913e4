#include "fabric/memory_limits.h"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <functional>
#include <sstream>

namespace penstock {
namespace {

std::string megabytes(uint64_t bytes) { return std::to_string(bytes >> 20) + " MB"; }
std::string megabytes_up(uint64_t bytes) {
  return std::to_string((bytes >> 20) + ((bytes & 0xfffff) != 0 ? 1 : 0)) + " MB";
}

// Whether a UCX_TLS list brings in a transport that `is` recognises. "^a,b": everything but a and b.
bool lists(const std::string& transports, const std::function<bool(const std::string&)>& is) {
  const bool all_but = transports.starts_with('^');
  std::istringstream names(transports.substr(all_but ? 1 : 0));
  bool named = false;
  for (std::string name; std::getline(names, name, ',');) named |= is(name);
  return named != all_but;
}

// posix, and UCX's names for groups that hold it.
bool uses_dev_shm(const std::string& name) {
  return name == "posix" || name == "shm" || name == "sm" || name == "mm" || name == "all";
}

bool uses_rdma(const std::string& name) {
  return name == "ib" || name == "all" || name.starts_with("rc") || name.starts_with("ud") ||
         name.starts_with("dc");
}

}  // namespace

MemoryLimits read_memory_limits() {
  MemoryLimits limits;
  struct statvfs shm {};
  if (::statvfs("/dev/shm", &shm) == 0) limits.shm_free = uint64_t{shm.f_bavail} * shm.f_frsize;
  rlimit locked{};
  if (::getrlimit(RLIMIT_MEMLOCK, &locked) == 0)
    limits.locked_memory = locked.rlim_cur == RLIM_INFINITY ? ~uint64_t{0} : locked.rlim_cur;
  std::error_code ignored;
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", ignored);
  limits.rdma_present = devices != std::filesystem::directory_iterator();
  return limits;
}

Status check_memory_limits(const MemoryLimits& limits, const std::string& transports, size_t bytes) {
  constexpr uint64_t kSpare = 4u << 20;  // queues of the shared-memory transport itself
  const uint64_t needed = uint64_t{bytes} > ~kSpare ? ~uint64_t{0} : bytes + kSpare;
  if (lists(transports, uses_dev_shm) && limits.shm_free < needed)
    return fail(Error::kResourceExhausted,
                "/dev/shm has " + megabytes(limits.shm_free) + " free, " + megabytes_up(needed) +
                    " are needed: enlarge it (mount -o remount,size=..., docker --shm-size, a Kubernetes "
                    "emptyDir with medium Memory), make the pool smaller, or set kv_transfer.transports = "
                    "\"tcp,self\"");
  if (limits.rdma_present && lists(transports, uses_rdma) && limits.locked_memory < bytes)
    return fail(Error::kResourceExhausted,
                "the locked-memory limit is " + megabytes(limits.locked_memory) + ", RDMA must pin " +
                    megabytes_up(bytes) +
                    ": raise it (ulimit -l unlimited, LimitMEMLOCK=infinity in systemd)");
  return {};
}

}  // namespace penstock
