// Devices, their memory, and streams: the order of work on a device.
//
// A Device outlives every buffer, stream and event made from it. Device is thread-safe; a Stream and an Event
// belong to one thread at a time. Work given to a stream runs in order; on a CPU it is done when the call
// returns, on CUDA only after synchronize() or an event. Callers write for the second.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/result.h"
#include "kernels/isa.h"

namespace penstock {

class ThreadPool;  // kernels/thread_pool.h
class Device;
class Event;
struct CudaPlugin;  // kernels/cuda_plugin.h

enum class DeviceKind : uint8_t { kCpu, kCuda };
enum class CopyKind : uint8_t { kHostToDevice, kDeviceToHost, kDeviceToDevice };

// Owns memory of one device, or pinned host memory of it. Aligned to 64 bytes at least.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(Device* device, void* data, int64_t bytes, bool pinned_host)
      : device_(device), data_(data), bytes_(bytes), pinned_host_(pinned_host) {}
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    DeviceBuffer(std::move(other)).swap(*this);
    return *this;
  }
  ~DeviceBuffer();

  void* data() const { return data_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  int64_t bytes() const { return bytes_; }

 private:
  void swap(DeviceBuffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(pinned_host_, other.pinned_host_);
  }
  Device* device_ = nullptr;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
  bool pinned_host_ = false;
};

// Work submitted to one device, done in order. Destroying a stream waits for its work.
class Stream {
 public:
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device() const { return device_; }
  DeviceKind kind() const { return kind_; }

  // Neither side may be touched by others until the stream has passed this point. Host memory that is not
  // pinned makes the call synchronous on CUDA.
  virtual void copy_async(void* to, const void* from, int64_t bytes, CopyKind kind) = 0;
  virtual void zero_async(void* to, int64_t bytes) = 0;
  virtual void record(Event& event) = 0;      // the event is reached when all work so far is done
  virtual void wait(const Event& event) = 0;  // later work of this stream starts after the event
  // Blocks the caller until all work is done. The error of any failed kernel or copy surfaces here.
  virtual Status synchronize() = 0;

  // CPU streams only: the workers and the instruction set of every op on this stream.
  ThreadPool& threads() const {
    CHECK(threads_ != nullptr);
    return *threads_;
  }
  Isa isa() const { return isa_; }

  // CUDA streams only: the plugin's function table and the cudaStream_t.
  const CudaPlugin& cuda() const {
    CHECK(cuda_ != nullptr);
    return *cuda_;
  }
  void* cuda_handle() const { return cuda_handle_; }
  // Keeps the first failure of an asynchronous call (nullptr: none) until synchronize() reports it.
  void note_failure(const char* op, const char* error) {
    if (error != nullptr && failure_.empty()) failure_ = std::string(op) + ": " + error;
  }

 protected:
  Stream(Device& device, DeviceKind kind) : device_(device), kind_(kind) {}
  ThreadPool* threads_ = nullptr;
  Isa isa_ = Isa::kPortable;
  const CudaPlugin* cuda_ = nullptr;
  void* cuda_handle_ = nullptr;
  std::string failure_;

 private:
  Device& device_;
  DeviceKind kind_;
};

// A point in a stream's work.
class Event {
 public:
  virtual ~Event() = default;
  virtual bool done() const = 0;           // does not block
  virtual Status synchronize() const = 0;  // blocks the caller until the event is reached
};

struct StreamOptions {
  int threads = 1;                        // CPU: workers, the calling thread included
  std::optional<Isa> isa = std::nullopt;  // CPU: forced; else PENSTOCK_ISA, else the best the machine has
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  virtual std::string name() const = 0;

  // Zero-filled. Allocation belongs to start-up: the step loop allocates nothing.
  virtual Result<DeviceBuffer> allocate(int64_t bytes) = 0;
  // Host memory that this device copies from and to without blocking the caller.
  virtual Result<DeviceBuffer> allocate_pinned(int64_t bytes) = 0;
  virtual Result<std::unique_ptr<Stream>> make_stream(const StreamOptions& options) = 0;
  virtual Result<std::unique_ptr<Event>> make_event() = 0;

 protected:
  friend class DeviceBuffer;
  virtual void release(void* data, int64_t bytes, bool pinned_host) = 0;
};

inline DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) device_->release(data_, bytes_, pinned_host_);
}

// The host. Its memory is ordinary memory; large buffers ask for huge pages.
std::unique_ptr<Device> make_cpu_device();

// Loads libpenstock_cuda.so from beside the program or PENSTOCK_CUDA_PLUGIN. Without plugin, driver or GPU:
// kUnavailable, "no CUDA device: REASON".
Result<std::unique_ptr<Device>> make_cuda_device(int ordinal);

}  // namespace penstock
