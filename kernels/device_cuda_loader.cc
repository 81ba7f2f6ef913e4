// Finds and loads the CUDA plugin and wraps its table as a Device. No CUDA header here: the table is all.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/cuda_plugin.h"
#include "kernels/device.h"

namespace penstock {
namespace {

constexpr const char* kPluginFile = "libpenstock_cuda.so";

Status status_of(const char* call, CudaError error) {
  if (error == nullptr) return {};
  return fail(Error::kInternal, std::string(call) + ": " + error);
}

class CudaEvent final : public Event {
 public:
  CudaEvent(const CudaPlugin& plugin, void* handle) : plugin_(plugin), handle_(handle) {}
  ~CudaEvent() override { plugin_.event_destroy(handle_); }
  bool done() const override {
    int done = 0;
    return plugin_.event_done(handle_, &done) != nullptr ||
           done != 0;  // a failure is reported by synchronize()
  }
  Status synchronize() const override { return status_of("event", plugin_.event_synchronize(handle_)); }
  void* handle() const { return handle_; }

 private:
  const CudaPlugin& plugin_;
  void* handle_;
};

class CudaStream final : public Stream {
 public:
  CudaStream(Device& owner, const CudaPlugin& plugin, void* handle) : Stream(owner, DeviceKind::kCuda) {
    cuda_ = &plugin;
    cuda_handle_ = handle;
  }
  ~CudaStream() override {
    cuda_->stream_synchronize(cuda_handle_);
    cuda_->stream_destroy(cuda_handle_);
  }
  void copy_async(void* to, const void* from, int64_t bytes, CopyKind) override {
    if (bytes > 0) note_failure("copy", cuda_->copy_async(to, from, bytes, cuda_handle_));
  }
  void zero_async(void* to, int64_t bytes) override {
    if (bytes > 0) note_failure("zero", cuda_->zero_async(to, bytes, cuda_handle_));
  }
  void record(Event& event) override {
    note_failure("record", cuda_->event_record(static_cast<CudaEvent&>(event).handle(), cuda_handle_));
  }
  void wait(const Event& event) override {
    note_failure("wait", cuda_->event_wait(static_cast<const CudaEvent&>(event).handle(), cuda_handle_));
  }
  Status synchronize() override {
    note_failure("synchronize", cuda_->stream_synchronize(cuda_handle_));
    if (failure_.empty()) return {};
    return fail(Error::kInternal, "CUDA stream of " + device().name() + ": " + std::exchange(failure_, {}));
  }
};

class CudaDevice final : public Device {
 public:
  CudaDevice(const CudaPlugin& plugin, int ordinal, std::string name)
      : plugin_(plugin), ordinal_(ordinal), name_(std::move(name)) {}
  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string name() const override { return name_; }

  Result<DeviceBuffer> allocate(int64_t bytes) override {
    if (bytes < 0) return fail(Error::kInvalidArgument, "allocate: negative size");
    if (bytes == 0) return DeviceBuffer();
    RETURN_IF_ERROR(status_of("use device", plugin_.use_device(ordinal_)));
    void* data = nullptr;
    if (const CudaError error = plugin_.allocate(bytes, &data); error != nullptr)
      return exhausted(bytes, error);
    DeviceBuffer buffer(this, data, bytes, false);
    ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream, make_stream({}));
    stream->zero_async(data, bytes);
    RETURN_IF_ERROR(stream->synchronize());
    return buffer;
  }
  Result<DeviceBuffer> allocate_pinned(int64_t bytes) override {
    if (bytes < 0) return fail(Error::kInvalidArgument, "allocate: negative size");
    if (bytes == 0) return DeviceBuffer();
    RETURN_IF_ERROR(status_of("use device", plugin_.use_device(ordinal_)));
    void* data = nullptr;
    if (const CudaError error = plugin_.allocate_pinned(bytes, &data); error != nullptr)
      return exhausted(bytes, error);
    std::memset(data, 0, static_cast<size_t>(bytes));
    return DeviceBuffer(this, data, bytes, true);
  }
  Result<std::unique_ptr<Stream>> make_stream(const StreamOptions&) override {
    RETURN_IF_ERROR(status_of("use device", plugin_.use_device(ordinal_)));
    void* handle = nullptr;
    RETURN_IF_ERROR(status_of("create stream", plugin_.stream_create(&handle)));
    return std::unique_ptr<Stream>(std::make_unique<CudaStream>(*this, plugin_, handle));
  }
  Result<std::unique_ptr<Event>> make_event() override {
    RETURN_IF_ERROR(status_of("use device", plugin_.use_device(ordinal_)));
    void* handle = nullptr;
    RETURN_IF_ERROR(status_of("create event", plugin_.event_create(&handle)));
    return std::unique_ptr<Event>(std::make_unique<CudaEvent>(plugin_, handle));
  }

 private:
  void release(void* data, int64_t, bool pinned_host) override {
    pinned_host ? plugin_.release_pinned(data) : plugin_.release(data);
  }
  Failure exhausted(int64_t bytes, CudaError error) const {
    return fail(Error::kResourceExhausted, name_ + ": " + std::to_string(bytes) + " bytes: " + error);
  }
  const CudaPlugin& plugin_;
  int ordinal_;
  std::string name_;
};

Failure no_device(const std::string& reason) {
  return fail(Error::kUnavailable, "no CUDA device: " + reason);
}

// PENSTOCK_CUDA_PLUGIN alone if set; else beside the program, in ../lib, and where the dynamic linker looks.
std::vector<std::string> plugin_candidates() {
  if (const char* forced = std::getenv("PENSTOCK_CUDA_PLUGIN"); forced != nullptr) return {forced};
  std::string program(4096, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", program.data(), program.size());
  if (length <= 0) return {kPluginFile};
  program.resize(static_cast<size_t>(length));
  const std::string folder = program.substr(0, program.rfind('/'));
  return {folder + "/" + kPluginFile, folder + "/../lib/" + kPluginFile, kPluginFile};
}

// The library stays loaded for the life of the process: CUDA does not survive being unloaded.
Result<const CudaPlugin*> load_plugin() {
  std::string reasons;
  for (const std::string& path : plugin_candidates()) {
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      reasons += (reasons.empty() ? "" : "; ") + std::string(::dlerror());
      continue;
    }
    using Entry = const CudaPlugin* (*)();
    const auto entry = reinterpret_cast<Entry>(::dlsym(library, kCudaPluginSymbol));
    if (entry == nullptr) return no_device(path + " is not a Penstock CUDA plugin");
    const CudaPlugin* plugin = entry();
    if (plugin->abi != kCudaPluginAbi) {
      return no_device(path + " has plugin version " + std::to_string(plugin->abi) + ", this program needs " +
                       std::to_string(kCudaPluginAbi) + "; build both from the same source");
    }
    return plugin;
  }
  return no_device("the plugin could not be loaded: " + reasons);
}

}  // namespace

Result<std::unique_ptr<Device>> make_cuda_device(int ordinal) {
  ASSIGN_OR_RETURN(const CudaPlugin* plugin, load_plugin());
  int count = 0;
  if (const CudaError error = plugin->device_count(&count); error != nullptr) return no_device(error);
  if (ordinal < 0 || ordinal >= count) {
    return no_device("ordinal " + std::to_string(ordinal) + " of " + std::to_string(count) + " devices");
  }
  if (const CudaError error = plugin->use_device(ordinal); error != nullptr) return no_device(error);
  char name[256] = {};
  if (const CudaError error = plugin->device_name(ordinal, name, sizeof(name)); error != nullptr) {
    return no_device(error);
  }
  return std::unique_ptr<Device>(
      std::make_unique<CudaDevice>(*plugin, ordinal, "cuda:" + std::to_string(ordinal) + " " + name));
}

}  // namespace penstock
