#include "kernels/emulator/emulator.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <csignal>
#include <string>
#include <vector>

#include "base/check.h"
#include "kernels/emulator/fiber.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace penstock::emulator {

Builtins builtins;

namespace {

constexpr int kWarp = 32;
constexpr size_t kSharedMax = 48 << 10;  // what a launch may ask for without opting in to more
constexpr size_t kSharedArena = 64 << 10;
constexpr uint8_t kPoison = 0xFF;  // NaN in every floating-point type

enum class State : uint8_t { kReady, kAtBarrier, kInExchange, kDone };

struct Thread {
  void* context = nullptr;
  State state = State::kReady;
  const char* what = "";  // the operation it waits in
  Location where;
  uint32_t mask = 0;
  uint64_t value = 0;             // brought to the exchange
  uint64_t received[kWarp] = {};  // what every lane had brought when it was complete
};

struct Emulator {
  std::vector<Thread> threads;
  int current = 0;
  void* scheduler = nullptr;  // context of run_grid
  void* stacks = nullptr;
  size_t stacks_bytes = 0;
  uint8_t* arena = nullptr;  // kSharedArena bytes, an inaccessible page on either side
  uint8_t* shared = nullptr;
  int64_t shared_bytes = 0;
  bool reverse = false;
  int64_t switches = 0;
  const char* kernel = "";
  void (*body)(void*) = nullptr;
  void* body_context = nullptr;
  std::string error;
  struct sigaction old_action = {};
};
Emulator machine;  // one process, one emulated device

size_t page_bytes() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

std::string place(const Location& where) {
  const std::string path = where.file_name();
  return path.substr(path.rfind('/') + 1) + ":" + std::to_string(where.line());
}

std::string block_name() {
  const dim3 b = builtins.block_index;
  return std::string(machine.kernel) + ", block (" + std::to_string(b.x) + "," + std::to_string(b.y) + "," +
         std::to_string(b.z) + "): ";
}

void yield_to_scheduler() {
  ++machine.switches;
  penstock_switch_fiber(&machine.threads[machine.current].context, machine.scheduler);
}

// What ends the launch. The caller abandons the thread afterwards, when its strings are gone.
void note_error(const std::string& what) {
  if (machine.error.empty()) {
    machine.error = block_name() + "thread " + std::to_string(machine.current) + " " + what;
  }
}

[[noreturn]] void abandon_thread() {
  machine.threads[machine.current].state = State::kDone;
  yield_to_scheduler();
  __builtin_unreachable();
}

void fiber_main() {
  machine.body(machine.body_context);
  abandon_thread();
}

// ---- accesses beyond the shared memory ----------------------------------------------------------------

int64_t fault_offset = 0;

void land_after_fault() {
  note_error("touched byte " + std::to_string(fault_offset) + " of the shared memory, which has " +
             std::to_string(machine.shared_bytes));
  abandon_thread();
}

// Lets the faulting fiber go on in land_after_fault(); a fault elsewhere is not ours and strikes again.
void on_segv(int, siginfo_t* info, void* context) {
  const auto* address = static_cast<uint8_t*>(info->si_addr);
  const size_t page = page_bytes();
  if (address < machine.arena - page || address >= machine.arena + kSharedArena + page) {
    ::sigaction(SIGSEGV, &machine.old_action, nullptr);
    return;
  }
  fault_offset = address - machine.shared;
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  registers[REG_RIP] = reinterpret_cast<greg_t>(&land_after_fault);
  registers[REG_RSP] =
      ((registers[REG_RSP] - 256) & ~greg_t{15}) - 8;  // past the red zone, aligned as by a call
}

void map_arena() {
  if (machine.arena != nullptr) return;
  const size_t page = page_bytes();
  void* whole = ::mmap(nullptr, kSharedArena + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(whole != MAP_FAILED);
  machine.arena = static_cast<uint8_t*>(whole) + page;
  CHECK_EQ(::mprotect(machine.arena, kSharedArena, PROT_READ | PROT_WRITE), 0);
}

// The arena's end is the end of the shared memory, so that the next byte is the inaccessible page; up to 15
// bytes of alignment and everything below are checked for writes at the end of the block.
void poison_shared() { std::memset(machine.arena, kPoison, kSharedArena); }

bool is_poison(const uint8_t* begin, const uint8_t* end) {
  if (begin == end) return true;
  return *begin == kPoison && std::memcmp(begin, begin + 1, static_cast<size_t>(end - begin) - 1) == 0;
}

void check_around_shared() {
  const uint8_t* arena = machine.arena;
  if (machine.error.empty() && !(is_poison(arena, machine.shared) &&
                                 is_poison(machine.shared + machine.shared_bytes, arena + kSharedArena))) {
    machine.error = block_name() + "wrote outside the " + std::to_string(machine.shared_bytes) +
                    " bytes of its shared memory";
  }
}

// ---- barriers -----------------------------------------------------------------------------------------

bool same_text(const char* a, const char* b) { return a == b || std::strcmp(a, b) == 0; }

bool same_place(const Thread& a, const Thread& b) {
  return a.where.line() == b.where.line() && same_text(a.what, b.what) &&
         same_text(a.where.file_name(), b.where.file_name());
}

bool release_block_barrier() {
  for (const Thread& thread : machine.threads) {
    if (thread.state != State::kAtBarrier || !same_place(thread, machine.threads[0])) return false;
  }
  for (Thread& thread : machine.threads) thread.state = State::kReady;
  return true;
}

bool exchange_is_complete(size_t warp_begin, const Thread& waiting) {
  for (size_t lane = 0; lane < kWarp && warp_begin + lane < machine.threads.size(); ++lane) {
    if ((waiting.mask >> lane & 1U) == 0) continue;
    const Thread& other = machine.threads[warp_begin + lane];
    if (other.state != State::kInExchange || other.mask != waiting.mask || !same_place(other, waiting))
      return false;
  }
  return true;
}

void complete_exchange(size_t warp_begin, uint32_t mask) {
  uint64_t values[kWarp] = {};
  const size_t lanes = std::min<size_t>(kWarp, machine.threads.size() - warp_begin);
  for (size_t lane = 0; lane < lanes; ++lane) values[lane] = machine.threads[warp_begin + lane].value;
  for (size_t lane = 0; lane < lanes; ++lane) {
    if ((mask >> lane & 1U) == 0) continue;
    Thread& thread = machine.threads[warp_begin + lane];
    std::memcpy(thread.received, values, sizeof(values));
    thread.state = State::kReady;
  }
}

bool release_warp_exchanges(size_t warp_begin) {
  bool released = false;
  const size_t end = std::min(warp_begin + kWarp, machine.threads.size());
  for (size_t i = warp_begin; i < end; ++i) {
    const Thread& waiting = machine.threads[i];
    if (waiting.state != State::kInExchange || !exchange_is_complete(warp_begin, waiting)) continue;
    complete_exchange(warp_begin, waiting.mask);
    released = true;
  }
  return released;
}

// "threads 0-15 wait in __syncthreads (x.cu:12), threads 16-31 have returned"
std::string describe_threads() {
  std::string text;
  const auto& threads = machine.threads;
  const auto alike = [](const Thread& a, const Thread& b) {
    return a.state == b.state && (a.state == State::kDone || (same_place(a, b) && a.mask == b.mask));
  };
  for (size_t first = 0, next = 0; first < threads.size(); first = next) {
    while (next < threads.size() && alike(threads[first], threads[next])) ++next;
    text += text.empty() ? "threads " : ", threads ";
    text += std::to_string(first) + "-" + std::to_string(next - 1);
    const Thread& thread = threads[first];
    text += thread.state == State::kDone
                ? std::string(" have returned")
                : " wait in " + std::string(thread.what) + " (" + place(thread.where) + ")";
  }
  return text;
}

// ---- the scheduler ------------------------------------------------------------------------------------

void resume(int index) {
  const auto i = static_cast<unsigned>(index);
  const dim3 size = builtins.block_size;
  builtins.thread_index = {i % size.x, i / size.x % size.y, i / size.x / size.y};
  machine.current = index;
  penstock_switch_fiber(&machine.scheduler, machine.threads[index].context);
}

// Runs a warp alone until each of its threads waits for the block or is done: a barrier that is missing
// between warps then lets one run far ahead of the others.
void run_warp(size_t begin) {
  const size_t count = std::min<size_t>(kWarp, machine.threads.size() - begin);
  do {
    for (size_t i = 0; i < count && machine.error.empty(); ++i) {
      const size_t index = begin + (machine.reverse ? count - 1 - i : i);
      if (machine.threads[index].state == State::kReady) resume(static_cast<int>(index));
    }
  } while (machine.error.empty() && release_warp_exchanges(begin));
}

void run_block() {
  const size_t count = machine.threads.size(), warps = (count + kWarp - 1) / kWarp;
  poison_shared();
  for (size_t i = 0; i < count; ++i) {
    machine.threads[i] = Thread{};
    uint8_t* stack = static_cast<uint8_t*>(machine.stacks) + i * kFiberStackBytes;
    machine.threads[i].context = prepare_fiber(stack, kFiberStackBytes, fiber_main);
  }
  while (machine.error.empty()) {
    for (size_t i = 0; i < warps; ++i) run_warp((machine.reverse ? warps - 1 - i : i) * kWarp);
    if (std::ranges::all_of(machine.threads, [](const Thread& t) { return t.state == State::kDone; })) break;
    if (machine.error.empty() && !release_block_barrier()) {
      machine.error = block_name() + "divergent barrier: " + describe_threads();
    }
  }
  check_around_shared();
}

void prepare_stacks(size_t count) {
  machine.threads.resize(count);
  const size_t bytes = count * kFiberStackBytes;
  if (bytes > machine.stacks_bytes) {
    if (machine.stacks != nullptr) ::munmap(machine.stacks, machine.stacks_bytes);
    machine.stacks = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(machine.stacks != MAP_FAILED);
    machine.stacks_bytes = bytes;
  }
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(machine.stacks, machine.stacks_bytes);  // what abandoned fibers left behind
#endif
}

}  // namespace

const char* run_grid(const char* kernel_name, dim3 grid, dim3 block, int64_t shared_bytes,
                     void (*body)(void*), void* context) {
  machine.kernel = kernel_name;
  machine.error.clear();
  machine.switches = 0;
  const size_t count = size_t{block.x} * block.y * block.z;
  if (count == 0 || count > 1024 || grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 ||
      grid.z > 65535 || shared_bytes > int64_t{kSharedMax}) {
    machine.error = std::string(kernel_name) + ": invalid configuration argument";
    return machine.error.c_str();
  }
  prepare_stacks(count);
  map_arena();
  machine.shared_bytes = shared_bytes;
  machine.shared = machine.arena + (kSharedArena - static_cast<size_t>(shared_bytes)) / 16 * 16;
  machine.body = body;
  machine.body_context = context;
  builtins.block_size = block;
  builtins.grid_size = grid;

  struct sigaction action = {};
  action.sa_sigaction = on_segv;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;  // the handler's fiber never returns from it in the usual way
  CHECK_EQ(::sigaction(SIGSEGV, &action, &machine.old_action), 0);
  const uint64_t blocks = uint64_t{grid.x} * grid.y * grid.z;
  for (uint64_t i = 0; i < blocks && machine.error.empty(); ++i) {
    const uint64_t index = machine.reverse ? blocks - 1 - i : i;
    builtins.block_index = {static_cast<unsigned>(index % grid.x),
                            static_cast<unsigned>(index / grid.x % grid.y),
                            static_cast<unsigned>(index / grid.x / grid.y)};
    run_block();
  }
  CHECK_EQ(::sigaction(SIGSEGV, &machine.old_action, nullptr), 0);
  return machine.error.empty() ? nullptr : machine.error.c_str();
}

void set_reverse_order(bool reverse) { machine.reverse = reverse; }
void* shared_memory() { return machine.shared; }
int64_t switch_count() { return machine.switches; }
unsigned lane_index() { return static_cast<unsigned>(machine.current % kWarp); }

void block_barrier(Location where) {
  Thread& thread = machine.threads[machine.current];
  thread.state = State::kAtBarrier;
  thread.what = "__syncthreads";
  thread.where = where;
  yield_to_scheduler();
}

void warp_exchange(const char* what, uint32_t mask, uint64_t value, Location where) {
  Thread& thread = machine.threads[machine.current];
  if ((mask >> lane_index() & 1U) == 0) {
    note_error("is not in the mask of its own " + std::string(what) + " (" + place(where) + ")");
    abandon_thread();
  }
  thread.state = State::kInExchange;
  thread.what = what;
  thread.where = where;
  thread.mask = mask;
  thread.value = value;
  yield_to_scheduler();
}

uint64_t value_of(unsigned lane, uint32_t mask, Location where) {
  const size_t index = static_cast<size_t>(machine.current / kWarp * kWarp) + lane;
  if ((mask >> lane & 1U) == 0 || index >= machine.threads.size()) {
    note_error("reads lane " + std::to_string(lane) + ", which takes no part in the exchange (" +
               place(where) + ")");
    abandon_thread();
  }
  return machine.threads[machine.current].received[lane];
}

}  // namespace penstock::emulator
