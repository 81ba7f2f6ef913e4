#include "model/gguf.h"

#include <limits>

#include "model/byte_reader.h"
#include "model/gguf_value_type.h"

namespace penstock {
namespace {

template <typename T>
T load_at(std::span<const std::byte> bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

std::optional<int64_t> array_integer(const GgufArray& array, size_t i) {
  switch (static_cast<GgufValueType>(array.element_type)) {
    case GgufValueType::kUint8:
      return load_at<uint8_t>(array.bytes, i);
    case GgufValueType::kInt8:
      return load_at<int8_t>(array.bytes, i);
    case GgufValueType::kUint16:
      return load_at<uint16_t>(array.bytes, i);
    case GgufValueType::kInt16:
      return load_at<int16_t>(array.bytes, i);
    case GgufValueType::kUint32:
      return load_at<uint32_t>(array.bytes, i);
    case GgufValueType::kInt32:
      return load_at<int32_t>(array.bytes, i);
    case GgufValueType::kInt64:
      return load_at<int64_t>(array.bytes, i);
    case GgufValueType::kUint64: {
      const uint64_t value = load_at<uint64_t>(array.bytes, i);
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<int64_t> as_integer(const GgufValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return *number;
  if (const auto* number = std::get_if<uint64_t>(&value)) {
    if (*number <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return static_cast<int64_t>(*number);
    }
  }
  return std::nullopt;
}

}  // namespace

int64_t GgufTensor::elements() const {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

const GgufTensor* GgufFile::find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &tensors_[it->second];
}

Failure GgufFile::missing(std::string_view key) const {
  return fail(Error::kCorrupt, path_ + ": the metadata key " + std::string(key) + " is missing");
}

Failure GgufFile::wrong_kind(std::string_view key, std::string_view wanted) const {
  return fail(Error::kCorrupt,
              path_ + ": the metadata key " + std::string(key) + " is not " + std::string(wanted));
}

const GgufValue* GgufFile::find_value(std::string_view key) const {
  const auto it = metadata_.find(key);
  return it == metadata_.end() ? nullptr : &it->second;
}

Result<int64_t> GgufFile::integer(std::string_view key) const {
  ASSIGN_OR_RETURN(const std::optional<int64_t> value, find_integer(key));
  if (!value) return missing(key);
  return *value;
}

Result<std::optional<int64_t>> GgufFile::find_integer(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return std::optional<int64_t>();
  const auto number = as_integer(*value);
  if (!number) return wrong_kind(key, "an integer");
  return number;
}

Result<double> GgufFile::number(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return missing(key);
  if (const auto* number = std::get_if<double>(value)) return *number;
  if (const auto number = as_integer(*value)) return static_cast<double>(*number);
  return wrong_kind(key, "a number");
}

Result<std::string_view> GgufFile::string(std::string_view key) const {
  ASSIGN_OR_RETURN(const std::optional<std::string_view> value, find_string(key));
  if (!value) return missing(key);
  return *value;
}

Result<std::optional<std::string_view>> GgufFile::find_string(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return std::optional<std::string_view>();
  const auto* text = std::get_if<std::string_view>(value);
  if (text == nullptr) return wrong_kind(key, "a string");
  return std::optional<std::string_view>(*text);
}

Result<bool> GgufFile::boolean(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return missing(key);
  const bool* flag = std::get_if<bool>(value);
  if (flag == nullptr) return wrong_kind(key, "true or false");
  return *flag;
}

Result<std::vector<std::string_view>> GgufFile::strings(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return missing(key);
  const auto* array = std::get_if<GgufArray>(value);
  if (array == nullptr || static_cast<GgufValueType>(array->element_type) != GgufValueType::kString)
    return wrong_kind(key, "an array of strings");
  std::vector<std::string_view> result;
  result.reserve(array->count);  // bounded: every string took 8 bytes of the file at least
  ByteReader reader(array->bytes);
  for (uint64_t i = 0; i < array->count; ++i) {
    const auto length = reader.read<uint64_t>();
    CHECK(length.has_value());  // the parser walked the array before
    const auto text = reader.take(*length);
    CHECK(text.has_value());
    result.push_back(as_text(*text));
  }
  return result;
}

Result<std::vector<int64_t>> GgufFile::integers(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return missing(key);
  const auto* array = std::get_if<GgufArray>(value);
  if (array == nullptr) return wrong_kind(key, "an array of integers");
  std::vector<int64_t> result;
  result.reserve(array->count);
  for (size_t i = 0; i < array->count; ++i) {
    const auto number = array_integer(*array, i);
    if (!number) return wrong_kind(key, "an array of integers");
    result.push_back(*number);
  }
  return result;
}

}  // namespace penstock
