#include "model/npz_writer.h"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/fd.h"

namespace penstock {
namespace {

constexpr int64_t kArchiveBytesMax = 0xFFFFFFFF;
constexpr int64_t kDirectoryReserve = 1 << 20;  // room for the directory below that limit
constexpr size_t kEntriesMax = 4096;
constexpr uint32_t kCrcOffset = 14;  // of the checksum in a local header

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0xEDB88320U : 0U);
    table[i] = value;
  }
  return table;
}

// CRC-32 as ZIP wants it, carried from piece to piece.
uint32_t update_crc(uint32_t crc, std::span<const std::byte> bytes) {
  static constexpr auto kTable = make_crc_table();
  crc = ~crc;
  for (const std::byte byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint32_t>(byte)) & 0xFF];
  return ~crc;
}

void put16(std::string& out, uint32_t value) {
  out.push_back(static_cast<char>(value & 0xFF));
  out.push_back(static_cast<char>((value >> 8) & 0xFF));
}
void put32(std::string& out, uint32_t value) {
  put16(out, value & 0xFFFF);
  put16(out, value >> 16);
}

struct Entry {
  std::string name;
  uint32_t offset = 0, size = 0, crc = 0;
};

// The fields that a local header and a directory entry share, from "version needed" to "extra length".
void put_entry_fields(std::string& out, const Entry& entry) {
  put16(out, 20);            // version needed
  put16(out, 0);             // flags
  put16(out, 0);             // stored
  put16(out, 0);             // time
  put16(out, (1 << 5) | 1);  // date: 1980-01-01
  put32(out, entry.crc);
  put32(out, entry.size);
  put32(out, entry.size);
  put16(out, static_cast<uint32_t>(entry.name.size()));
  put16(out, 0);
}

std::string npy_header(const std::vector<int64_t>& shape) {
  std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (const int64_t size : shape) dict += std::to_string(size) + ", ";
  dict += "), }";
  const size_t padded = (10 + dict.size() + 1 + 63) / 64 * 64;
  dict.append(padded - 10 - dict.size() - 1, ' ');
  dict.push_back('\n');
  std::string header("\x93NUMPY\x01\x00", 8);
  put16(header, static_cast<uint32_t>(dict.size()));
  return header + dict;
}

}  // namespace

struct NpzWriter::State {
  std::string path;
  UniqueFd fd;
  int64_t size = 0;
  std::vector<Entry> entries;
  int64_t missing = 0;  // bytes that the open array still expects

  Failure io_failure(const char* what) const {
    return fail(Error::kIo, path + ": cannot " + what + ": " + std::strerror(errno));
  }
  Status write_all(const void* data, size_t count) {
    const auto* from = static_cast<const char*>(data);
    while (count > 0) {
      const ssize_t put = ::write(fd.get(), from, count);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return io_failure("write");
      from += put;
      count -= static_cast<size_t>(put);
      size += put;
    }
    return {};
  }
  // The checksum is known only behind the data: it is put into the header that was written before.
  Status close_entry() {
    if (entries.empty()) return {};
    CHECK_EQ(missing, 0);
    const Entry& entry = entries.back();
    if (::pwrite(fd.get(), &entry.crc, sizeof(entry.crc), entry.offset + kCrcOffset) != sizeof(entry.crc)) {
      return io_failure("write");
    }
    return {};
  }
};

NpzWriter::NpzWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
NpzWriter::NpzWriter(NpzWriter&&) noexcept = default;
NpzWriter& NpzWriter::operator=(NpzWriter&&) noexcept = default;
NpzWriter::~NpzWriter() = default;

Result<NpzWriter> NpzWriter::create(const std::string& path) {
  auto state = std::make_unique<State>();
  state->path = path;
  state->fd = UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!state->fd.valid()) return state->io_failure("create");
  return NpzWriter(std::move(state));
}

Status NpzWriter::begin(const std::string& name, const std::vector<int64_t>& shape) {
  RETURN_IF_ERROR(state_->close_entry());
  int64_t bytes = 4;
  for (const int64_t size : shape) bytes *= size;
  const std::string npy = npy_header(shape);
  if (bytes > kArchiveBytesMax - kDirectoryReserve - state_->size || state_->entries.size() >= kEntriesMax) {
    return fail(Error::kInvalidArgument, state_->path + ": the array \"" + name + "\" of " +
                                             std::to_string(bytes) +
                                             " bytes would take this archive beyond 4 GB or " +
                                             std::to_string(kEntriesMax) + " arrays; write fewer to a file");
  }
  Entry entry;
  entry.name = name + ".npy";
  entry.offset = static_cast<uint32_t>(state_->size);
  entry.size = static_cast<uint32_t>(static_cast<int64_t>(npy.size()) + bytes);
  entry.crc = update_crc(0, std::as_bytes(std::span(npy)));
  std::string header;
  put32(header, 0x04034b50);
  put_entry_fields(header, entry);
  header += entry.name + npy;
  state_->entries.push_back(std::move(entry));
  state_->missing = bytes;
  return state_->write_all(header.data(), header.size());
}

Status NpzWriter::append(std::span<const float> values) {
  state_->missing -= static_cast<int64_t>(values.size_bytes());
  CHECK_GE(state_->missing, 0);
  Entry& entry = state_->entries.back();
  entry.crc = update_crc(entry.crc, std::as_bytes(values));
  return state_->write_all(values.data(), values.size_bytes());
}

Status NpzWriter::finish() {
  RETURN_IF_ERROR(state_->close_entry());
  std::string directory;
  for (const Entry& entry : state_->entries) {
    put32(directory, 0x02014b50);
    put16(directory, 20);  // made by
    put_entry_fields(directory, entry);
    put16(directory, 0);  // comment
    put16(directory, 0);  // disk
    put16(directory, 0);  // attributes
    put32(directory, 0);
    put32(directory, entry.offset);
    directory += entry.name;
  }
  const auto start = static_cast<uint32_t>(state_->size), size = static_cast<uint32_t>(directory.size());
  const auto count = static_cast<uint32_t>(state_->entries.size());
  put32(directory, 0x06054b50);
  put32(directory, 0);  // this disk, disk of the directory
  put16(directory, count);
  put16(directory, count);
  put32(directory, size);
  put32(directory, start);
  put16(directory, 0);
  return state_->write_all(directory.data(), directory.size());
}

}  // namespace penstock
