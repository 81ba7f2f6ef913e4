#include "model/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/fd.h"

namespace penstock {
namespace {

Failure io_failure(const std::string& path, const char* what) {
  const Error code = errno == ENOENT ? Error::kNotFound : Error::kIo;
  return fail(code, path + ": cannot " + what + ": " + std::strerror(errno));
}

}  // namespace

Result<std::string> read_file(const std::string& path, int64_t bytes_max) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return io_failure(path, "open");
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return io_failure(path, "stat");
  if (!S_ISREG(info.st_mode)) return fail(Error::kInvalidArgument, path + ": not a regular file");
  if (info.st_size > bytes_max) {
    return fail(Error::kInvalidArgument, path + ": " + std::to_string(info.st_size) +
                                             " bytes are more than the " + std::to_string(bytes_max) +
                                             " that such a file may have");
  }
  std::string content(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t got = ::read(fd.get(), content.data() + done, content.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_failure(path, "read");
    if (got == 0) break;  // cut short since fstat
    done += static_cast<size_t>(got);
  }
  content.resize(done);
  return content;
}

Status write_file(const std::string& path, std::string_view content) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return io_failure(path, "create");
  while (!content.empty()) {
    const ssize_t put = ::write(fd.get(), content.data(), content.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return io_failure(path, "write");
    content.remove_prefix(static_cast<size_t>(put));
  }
  if (::fsync(fd.get()) != 0) return io_failure(path, "flush");
  return {};
}

}  // namespace penstock
