#include "sim/simulate.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "base/check.h"

namespace penstock::sim {

namespace {

// Shared with the children: what each has done, and where it is now.
struct WorkerSlot {
  uint64_t current_seed = 0;
  std::atomic<uint64_t> seeds = 0;
  WorldReport sum;  // its violation stays empty; `broken` says what happened
  bool broken = false;
  char failure[512] = {};
};

void add_counts(WorldReport& sum, const WorldReport& report) {
  sum.requests += report.requests;
  sum.finished += report.finished;
  sum.rejected += report.rejected;
  sum.failed += report.failed;
  sum.tokens += report.tokens;
  sum.preemptions += report.preemptions;
  sum.replays += report.replays;
  sum.events += report.events;
  sum.action_hash ^= report.action_hash;
  for (int kind = 0; kind < kFaultKinds; ++kind) sum.faults[kind] += report.faults[kind];
}

std::string describe(const Violation& violation) {
  std::ostringstream out;
  out << "invariant " << violation.invariant << " broke after " << violation.when << ": " << violation.what;
  return out.str();
}

void run_share(WorkerSlot& slot, uint64_t first, uint64_t count, uint64_t start, uint64_t stride) {
  for (uint64_t i = start; i < count; i += stride) {
    slot.current_seed = first + i;
    const WorldReport report = run_seed(first + i);
    if (report.violation) {
      slot.broken = true;
      std::strncpy(slot.failure, describe(*report.violation).c_str(), sizeof(slot.failure) - 1);
      return;
    }
    add_counts(slot.sum, report);
    ++slot.seeds;
  }
}

// Pages that children write and the parent reads.
class SharedSlots {
 public:
  explicit SharedSlots(int count) : bytes_(sizeof(WorkerSlot) * static_cast<size_t>(count)) {
    void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    slots_ = static_cast<WorkerSlot*>(memory);
    for (int i = 0; i < count; ++i) new (slots_ + i) WorkerSlot();
  }
  ~SharedSlots() { ::munmap(slots_, bytes_); }
  SharedSlots(const SharedSlots&) = delete;
  SharedSlots& operator=(const SharedSlots&) = delete;
  WorkerSlot& operator[](int i) { return slots_[i]; }

 private:
  size_t bytes_;
  WorkerSlot* slots_ = nullptr;
};

// The child's exit status; calls `waiting` a few times a second until it is there.
int wait_for(pid_t child, const std::function<void()>& waiting) {
  constexpr useconds_t kPollUs = 20'000;
  for (int polls = 1;; ++polls) {
    int status = 0;
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) return status;
    CHECK(ended == 0 || errno == EINTR);
    if (polls % 10 == 0) waiting();
    ::usleep(kPollUs);
  }
}

}  // namespace

WorldReport run_seed(uint64_t seed, std::vector<uint8_t>* record) {
  World world(draw_scenario(seed), record);
  return world.run();
}

SeedsReport run_seeds(uint64_t first, uint64_t count, int processes,
                      const std::function<void(uint64_t done)>& progress) {
  CHECK_GT(processes, 0);
  SharedSlots slots(processes);
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    const pid_t child = ::fork();
    CHECK_GE(child, 0);
    if (child == 0) {
      run_share(slots[i], first, count, static_cast<uint64_t>(i), static_cast<uint64_t>(processes));
      ::_exit(slots[i].broken ? 1 : 0);
    }
    children.push_back(child);
  }
  SeedsReport report;
  for (int i = 0; i < processes; ++i) {
    const int status = wait_for(children[static_cast<size_t>(i)], [&] {
      uint64_t done = 0;
      for (int k = 0; k < processes; ++k) done += slots[k].seeds;
      if (progress) progress(done);
    });
    WorkerSlot& slot = slots[i];
    report.seeds += slot.seeds;
    add_counts(report.sum, slot.sum);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    if (!report.failure.empty() && report.failed_seed < slot.current_seed)
      continue;  // the smallest is reported
    report.failed_seed = slot.current_seed;
    report.failure = slot.broken ? slot.failure : "a CHECK failed (its values are above) or the process died";
  }
  return report;
}

std::string summary_line(const SeedsReport& report) {
  std::ostringstream out;
  const WorldReport& sum = report.sum;
  uint64_t faults = 0;
  for (const uint64_t count : sum.faults) faults += count;
  out << report.seeds << " seeds held: " << sum.requests << " requests (" << sum.finished << " finished, "
      << sum.rejected << " rejected, " << sum.failed << " failed), " << sum.tokens << " tokens, " << faults
      << " faults (";
  for (int kind = 0; kind < kFaultKinds; ++kind)
    out << (kind == 0 ? "" : ", ") << sum.faults[kind] << ' ' << kFaultNames[static_cast<size_t>(kind)];
  out << "), " << sum.preemptions << " preemptions, " << sum.replays << " replays, " << sum.events
      << " events";
  return out.str();
}

}  // namespace penstock::sim
