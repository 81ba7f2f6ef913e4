// Reads the golden files of tests/golden/model: JSON, and NumPy archives of stored arrays. Test code: a file
// that is missing or broken aborts.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"

namespace penstock::golden {

using Json = nlohmann::json;

inline std::string path(const std::string& name) {
  return std::string(PENSTOCK_SOURCE_DIR) + "/tests/golden/model/" + name;
}

inline std::string read(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  CHECK(in.good());
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

inline std::vector<Json> lines(const std::string& name) {
  std::istringstream in(read(path(name)));
  std::vector<Json> rows;
  for (std::string line; std::getline(in, line);) rows.push_back(Json::parse(line));
  CHECK(!rows.empty());
  return rows;
}

// An archive in memory. Reads the ZIP directory, which numpy and our writer both fill completely.
class Npz {
 public:
  explicit Npz(const std::string& file) : bytes_(read(file)) {
    const size_t end = bytes_.rfind("PK\x05\x06");
    CHECK(end != std::string::npos);
    size_t at = load<uint32_t>(end + 16);
    for (int i = 0, count = load<uint16_t>(end + 10); i < count; ++i) {
      const auto size = load<uint32_t>(at + 24), header = load<uint32_t>(at + 42);
      const auto name_length = load<uint16_t>(at + 28), extra = load<uint16_t>(at + 30);
      CHECK_EQ(load<uint16_t>(at + 10), 0);  // stored
      std::string name = bytes_.substr(at + 46, name_length);
      const size_t data = header + 30 + load<uint16_t>(header + 26) + load<uint16_t>(header + 28);
      files_[name.substr(0, name.size() - 4)] = {data, size};
      at += size_t{46} + name_length + extra + load<uint16_t>(at + 32);
    }
  }
  template <typename T>
  std::vector<T> array(const std::string& name) const {
    CHECK(files_.contains(name));
    const auto [offset, size] = files_.at(name);
    const size_t header = size_t{10} + load<uint16_t>(offset + 8);
    CHECK_EQ((size - header) % sizeof(T), size_t{0});
    std::vector<T> values((size - header) / sizeof(T));
    std::memcpy(values.data(), bytes_.data() + offset + header, values.size() * sizeof(T));
    return values;
  }
  std::string header(const std::string& name) const {
    const size_t offset = files_.at(name).first;
    return bytes_.substr(offset + 10, load<uint16_t>(offset + 8));
  }
  size_t arrays() const { return files_.size(); }

 private:
  template <typename T>
  T load(size_t at) const {
    CHECK_LE(at + sizeof(T), bytes_.size());
    T value;
    std::memcpy(&value, bytes_.data() + at, sizeof(T));
    return value;
  }
  std::string bytes_;
  std::map<std::string, std::pair<size_t, size_t>> files_;  // name -> (offset, size) of the .npy
};

}  // namespace penstock::golden
