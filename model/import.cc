#include "model/import.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/fd.h"
#include "model/import_source.h"
#include "model/read_file.h"
#include "model/safetensors.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPieceBytes = 1 << 20;  // what is converted before it is written

// A folder that disappears with this object unless it was given its final name.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> create(const std::string& destination) {
    TemporaryFolder folder;
    folder.path_ = destination + ".partial-" + std::to_string(::getpid());
    std::error_code error;
    fs::remove_all(folder.path_, error);
    if (!fs::create_directories(folder.path_, error) || error) {
      return fail(Error::kIo, folder.path_ + ": cannot create this folder: " + error.message());
    }
    return folder;
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

  Status rename_to(const std::string& destination) {
    std::error_code error;
    fs::rename(path_, destination, error);  // replaces an empty folder, and nothing else
    if (error) return fail(Error::kIo, destination + ": cannot be put in place: " + error.message());
    path_.clear();
    const fs::path parent = fs::absolute(destination, error).parent_path();
    const UniqueFd fd(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd.valid()) ::fsync(fd.get());  // best effort: the files themselves are flushed
    return {};
  }

 private:
  TemporaryFolder() = default;
  std::string path_;
};

// destination without trailing slashes, if it may be written.
Result<std::string> check_destination(std::string destination) {
  while (destination.size() > 1 && destination.back() == '/') destination.pop_back();
  if (destination.empty()) return fail(Error::kInvalidArgument, "the destination's name is empty");
  std::error_code error;
  const fs::file_status status = fs::status(destination, error);
  if (!fs::exists(status)) return destination;
  if (fs::is_directory(status) && fs::is_empty(destination, error) && !error) return destination;
  return fail(Error::kInvalidArgument,
              destination + ": exists already; remove it or choose another destination");
}

Result<ImportSource> open_source(const std::string& source, DType dtype) {
  std::error_code error;
  const fs::file_status status = fs::status(source, error);
  if (!fs::exists(status)) {
    return fail(Error::kNotFound, source +
                                      ": no such file or folder; give a GGUF file or a Hugging Face "
                                      "model folder");
  }
  return fs::is_directory(status) ? open_hf_source(source, dtype) : open_gguf_source(source, dtype);
}

std::vector<TensorSpec> specs_of(const ImportSource& source, DType dtype) {
  std::vector<TensorSpec> specs;
  for (const ImportTensor& tensor : source.tensors) specs.push_back({tensor.name, dtype, tensor.shape});
  return specs;
}

// Converts and writes one tensor in pieces of whole rows.
Status write_tensor(const ImportTensor& tensor, DType dtype, SafetensorsWriter& writer) {
  const int64_t cols = tensor.cols();
  const int64_t piece_rows = std::clamp<int64_t>(kPieceBytes / (4 * cols), 1, tensor.rows());
  std::vector<float> values(static_cast<size_t>(piece_rows * cols));
  std::vector<Bf16> narrow(dtype == DType::kBf16 ? values.size() : 0);
  for (int64_t first = 0; first < tensor.rows(); first += piece_rows) {
    const int64_t rows = std::min(piece_rows, tensor.rows() - first);
    const auto piece = std::span(values).first(static_cast<size_t>(rows * cols));
    for (int64_t row = 0; row < rows; ++row) {
      tensor.read_row(first + row, piece.subspan(static_cast<size_t>(row * cols), static_cast<size_t>(cols)));
    }
    if (dtype == DType::kF32) {
      RETURN_IF_ERROR(writer.append(std::as_bytes(piece)));
      continue;
    }
    std::transform(piece.begin(), piece.end(), narrow.begin(), [](float value) { return to_bf16(value); });
    RETURN_IF_ERROR(writer.append(std::as_bytes(std::span(narrow).first(piece.size()))));
  }
  return {};
}

Result<int64_t> write_tensors(const ImportSource& source, DType dtype, const std::string& path,
                              ImportProgress progress) {
  ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::create(path, specs_of(source, dtype)));
  int64_t total = 0, done = 0;
  for (const ImportTensor& tensor : source.tensors)
    total += tensor.rows() * tensor.cols() * dtype_bytes(dtype);
  for (const ImportTensor& tensor : source.tensors) {
    RETURN_IF_ERROR(write_tensor(tensor, dtype, writer));
    done += tensor.rows() * tensor.cols() * dtype_bytes(dtype);
    if (progress) progress(done, total);
  }
  RETURN_IF_ERROR(writer.finish());
  return total;
}

}  // namespace

std::string torch_dtype_name(DType dtype) { return dtype == DType::kBf16 ? "bfloat16" : "float32"; }

Result<ImportSummary> import_model(const std::string& source, const std::string& destination,
                                   const ImportOptions& options, ImportProgress progress) {
  if (options.dtype != DType::kF32 && options.dtype != DType::kBf16) {
    return fail(Error::kInvalidArgument,
                "a model is imported as f32 or bf16, not " + std::string(dtype_name(options.dtype)));
  }
  ASSIGN_OR_RETURN(const std::string target, check_destination(destination));
  ASSIGN_OR_RETURN(const ImportSource parts, open_source(source, options.dtype));
  ASSIGN_OR_RETURN(TemporaryFolder folder, TemporaryFolder::create(target));
  for (const auto& [name, content] : parts.texts) {
    RETURN_IF_ERROR(write_file(folder.path() + "/" + name, content));
  }
  ASSIGN_OR_RETURN(const int64_t bytes,
                   write_tensors(parts, options.dtype, folder.path() + "/model.safetensors", progress));
  RETURN_IF_ERROR(folder.rename_to(target));
  return ImportSummary{static_cast<int64_t>(parts.tensors.size()), bytes, parts.architecture};
}

}  // namespace penstock
