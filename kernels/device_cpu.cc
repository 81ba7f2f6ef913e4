// The host as a Device: ordinary memory, work done when a call returns.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "kernels/device.h"
#include "kernels/thread_pool.h"

namespace penstock {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kCacheLine = 64;

class CpuEvent final : public Event {
 public:
  bool done() const override { return true; }
  Status synchronize() const override { return {}; }
};

class CpuStream final : public Stream {
 public:
  CpuStream(Device& device, int threads, Isa isa) : Stream(device, DeviceKind::kCpu), pool_(threads) {
    threads_ = &pool_;
    isa_ = isa;
  }
  void copy_async(void* to, const void* from, int64_t bytes, CopyKind) override {
    if (bytes > 0) std::memmove(to, from, static_cast<size_t>(bytes));
  }
  void zero_async(void* to, int64_t bytes) override {
    if (bytes > 0) std::memset(to, 0, static_cast<size_t>(bytes));
  }
  void record(Event&) override {}
  void wait(const Event&) override {}
  Status synchronize() override { return {}; }

 private:
  ThreadPool pool_;
};

class CpuDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::kCpu; }
  std::string name() const override { return "cpu"; }

  Result<DeviceBuffer> allocate(int64_t bytes) override {
    if (bytes < 0) return fail(Error::kInvalidArgument, "allocate: negative size");
    if (bytes == 0) return DeviceBuffer();
    const int64_t alignment = bytes >= kHugePage ? kHugePage : kCacheLine;
    const int64_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void* data = std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(rounded));
    if (data == nullptr) {
      return fail(Error::kResourceExhausted, "cpu: no memory for " + std::to_string(bytes) + " bytes");
    }
    if (alignment == kHugePage) ::madvise(data, static_cast<size_t>(rounded), MADV_HUGEPAGE);  // a wish only
    std::memset(data, 0, static_cast<size_t>(rounded));
    return DeviceBuffer(this, data, bytes, false);
  }
  Result<DeviceBuffer> allocate_pinned(int64_t bytes) override { return allocate(bytes); }

  Result<std::unique_ptr<Stream>> make_stream(const StreamOptions& options) override {
    if (options.threads < 1) return fail(Error::kInvalidArgument, "a CPU stream needs at least one thread");
    ASSIGN_OR_RETURN(const Isa isa, choose_isa(options.isa));
    return std::unique_ptr<Stream>(std::make_unique<CpuStream>(*this, options.threads, isa));
  }
  Result<std::unique_ptr<Event>> make_event() override {
    return std::unique_ptr<Event>(std::make_unique<CpuEvent>());
  }

 private:
  void release(void* data, int64_t, bool) override { std::free(data); }
};

}  // namespace

std::unique_ptr<Device> make_cpu_device() { return std::make_unique<CpuDevice>(); }

}  // namespace penstock
