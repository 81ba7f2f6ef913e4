#include "model/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/fd.h"

namespace penstock {

Result<MappedFile> MappedFile::open(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    const Error code = errno == ENOENT ? Error::kNotFound : Error::kIo;
    return fail(code, path + ": cannot open: " + std::strerror(errno));
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) {
    return fail(Error::kIo, path + ": cannot stat: " + std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) return fail(Error::kInvalidArgument, path + ": not a regular file");
  MappedFile file;
  if (info.st_size == 0) return file;  // an empty mapping is an error to mmap, not to us
  void* data = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) return fail(Error::kIo, path + ": cannot map: " + std::strerror(errno));
  file.bytes_ = {static_cast<const std::byte*>(data), static_cast<size_t>(info.st_size)};
  return file;
}

MappedFile::~MappedFile() {
  if (bytes_.data() != nullptr) {
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
}

}  // namespace penstock
