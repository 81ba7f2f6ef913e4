// A whole file, mapped read-only. Views into it live as long as it does; any thread may read.
//
// A file that another process cuts short while it is mapped kills this one with SIGBUS: model files are
// written under a temporary name and renamed, never changed in place.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"

namespace penstock {

class MappedFile {
 public:
  [[nodiscard]] static Result<MappedFile> open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept { swap(other); }
  MappedFile& operator=(MappedFile&& other) noexcept {
    MappedFile(std::move(other)).swap(*this);
    return *this;
  }
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  void swap(MappedFile& other) noexcept { std::swap(bytes_, other.bytes_); }
  std::span<const std::byte> bytes_;
};

}  // namespace penstock
