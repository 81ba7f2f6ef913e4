#include "fabric/memory_limits.h"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <filesystem>

namespace penstock {
namespace {

std::string megabytes(uint64_t bytes) { return std::to_string(bytes >> 20) + " MB"; }

bool lists(const std::string& transports, const std::string& name) {
  return ("," + transports + ",").find("," + name + ",") != std::string::npos;
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
  if (lists(transports, "posix") && limits.shm_free < bytes + kSpare)
    return fail(Error::kResourceExhausted,
                "/dev/shm has " + megabytes(limits.shm_free) + " free, " + megabytes(bytes + kSpare) +
                    " are needed: enlarge it (mount -o remount,size=..., docker --shm-size, a Kubernetes "
                    "emptyDir with medium Memory), make the pool smaller, or set kv_transfer.transports = "
                    "\"tcp,self\"");
  const bool pins = limits.rdma_present && transports != "tcp,self" && transports != "posix,tcp,self";
  if (pins && limits.locked_memory < bytes)
    return fail(Error::kResourceExhausted,
                "the locked-memory limit is " + megabytes(limits.locked_memory) + ", RDMA must pin " +
                    megabytes(bytes) + ": raise it (ulimit -l unlimited, LimitMEMLOCK=infinity in systemd)");
  return {};
}

}  // namespace penstock
