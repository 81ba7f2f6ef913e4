#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "model/safetensors.h"

namespace penstock {
namespace {

const char* safetensors_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kBf16:
      return "BF16";
    case DType::kF16:
      return "F16";
    case DType::kI32:
      return "I32";
  }
  return "?";
}

}  // namespace

struct SafetensorsWriter::State {
  std::string path;
  UniqueFd fd;
  int64_t announced = 0;
  int64_t written = 0;

  Status write_all(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t put = ::write(fd.get(), bytes.data(), bytes.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return fail(Error::kIo, path + ": cannot write: " + std::strerror(errno));
      bytes = bytes.subspan(static_cast<size_t>(put));
    }
    return {};
  }
};

SafetensorsWriter::SafetensorsWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter& SafetensorsWriter::operator=(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter::~SafetensorsWriter() = default;

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string& path,
                                                    const std::vector<TensorSpec>& specs) {
  auto state = std::make_unique<State>();
  // Entries are appended to the object's list directly: insertion by name would compare with all before it.
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  auto& entries = header.get_ref<nlohmann::ordered_json::object_t&>();
  for (const TensorSpec& spec : specs) {
    int64_t bytes = dtype_bytes(spec.dtype);
    for (const int64_t size : spec.shape) bytes *= size;
    entries.emplace_back(
        spec.name, nlohmann::ordered_json{{"dtype", safetensors_name(spec.dtype)},
                                          {"shape", spec.shape},
                                          {"data_offsets", {state->announced, state->announced + bytes}}});
    state->announced += bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // so that tensors are aligned in the mapping
  const uint64_t length = text.size();
  state->path = path;
  state->fd = UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!state->fd.valid()) return fail(Error::kIo, path + ": cannot create: " + std::strerror(errno));
  RETURN_IF_ERROR(state->write_all(std::as_bytes(std::span(&length, 1))));
  RETURN_IF_ERROR(state->write_all(std::as_bytes(std::span(text))));
  return SafetensorsWriter(std::move(state));
}

Status SafetensorsWriter::append(std::span<const std::byte> bytes) {
  state_->written += static_cast<int64_t>(bytes.size());
  CHECK_LE(state_->written, state_->announced);
  return state_->write_all(bytes);
}

Status SafetensorsWriter::finish() {
  CHECK_EQ(state_->written, state_->announced);
  if (::fsync(state_->fd.get()) != 0) {
    return fail(Error::kIo, state_->path + ": cannot flush: " + std::strerror(errno));
  }
  return {};
}

}  // namespace penstock
