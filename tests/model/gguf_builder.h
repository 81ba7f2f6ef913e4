// Builds GGUF files in memory, well-formed or not.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "model/gguf_value_type.h"

namespace penstock {

class GgufBuilder {
 public:
  GgufBuilder& string(const std::string& key, const std::string& value) {
    begin(key, GgufValueType::kString);
    put_string(metadata_, value);
    return *this;
  }
  GgufBuilder& u32(const std::string& key, uint32_t value) {
    return scalar(key, GgufValueType::kUint32, value);
  }
  GgufBuilder& f32(const std::string& key, float value) {
    return scalar(key, GgufValueType::kFloat32, value);
  }
  GgufBuilder& boolean(const std::string& key, bool value) {
    return scalar(key, GgufValueType::kBool, static_cast<uint8_t>(value));
  }
  GgufBuilder& strings(const std::string& key, const std::vector<std::string>& values) {
    begin(key, GgufValueType::kArray);
    put(metadata_, static_cast<uint32_t>(GgufValueType::kString));
    put(metadata_, uint64_t{values.size()});
    for (const std::string& value : values) put_string(metadata_, value);
    return *this;
  }
  GgufBuilder& i32s(const std::string& key, const std::vector<int32_t>& values) {
    begin(key, GgufValueType::kArray);
    put(metadata_, static_cast<uint32_t>(GgufValueType::kInt32));
    put(metadata_, uint64_t{values.size()});
    for (const int32_t value : values) put(metadata_, value);
    return *this;
  }
  template <typename T>
  GgufBuilder& scalar(const std::string& key, GgufValueType type, T value) {
    begin(key, type);
    put(metadata_, value);
    return *this;
  }
  // `shape` as Hugging Face writes it; `offset` overrides the place in the data.
  GgufBuilder& tensor(const std::string& name, uint32_t type, const std::vector<uint64_t>& shape,
                      std::string data, int64_t offset = -1) {
    put_string(tensors_, name);
    put(tensors_, static_cast<uint32_t>(shape.size()));
    for (size_t i = shape.size(); i > 0; --i) put(tensors_, shape[i - 1]);
    put(tensors_, type);
    put(tensors_, offset >= 0 ? static_cast<uint64_t>(offset) : uint64_t{data_.size()});
    data.resize((data.size() + 31) / 32 * 32, '\0');
    data_ += data;
    ++tensor_count_;
    return *this;
  }
  GgufBuilder& f32_tensor(const std::string& name, const std::vector<uint64_t>& shape,
                          std::span<const float> values) {
    return tensor(name, 0, shape, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }

  std::string build(uint32_t version = 3) const { return build(version, tensor_count_, metadata_count_); }
  std::string build(uint32_t version, uint64_t tensor_count, uint64_t metadata_count) const {
    std::string out = "GGUF";
    put(out, version);
    put(out, tensor_count);
    put(out, metadata_count);
    out += metadata_ + tensors_;
    out.resize((out.size() + 31) / 32 * 32, '\0');
    return out + data_;
  }

 private:
  template <typename T>
  static void put(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  static void put_string(std::string& out, const std::string& value) {
    put(out, uint64_t{value.size()});
    out += value;
  }
  void begin(const std::string& key, GgufValueType type) {
    put_string(metadata_, key);
    put(metadata_, static_cast<uint32_t>(type));
    ++metadata_count_;
  }

  std::string metadata_, tensors_, data_;
  uint64_t tensor_count_ = 0, metadata_count_ = 0;
};

}  // namespace penstock
