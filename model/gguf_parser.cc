// The parser of GGUF files. The layout: magic, version, counts, metadata, tensor descriptions, padding to the
// alignment, tensor data.
#include <algorithm>
#include <bit>
#include <numeric>

#include "model/byte_reader.h"
#include "model/gguf.h"
#include "model/gguf_value_type.h"

namespace penstock {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr int64_t kDefaultAlignment = 32;
constexpr uint64_t kKeyBytesMax = 65535, kNameBytesMax = 65535;
constexpr uint32_t kDimensionsMax = 4;

using enum GgufValueType;

// 0 for types without a fixed size.
uint64_t scalar_bytes(uint32_t type) {
  switch (static_cast<GgufValueType>(type)) {
    case kUint8:
    case kInt8:
    case kBool:
      return 1;
    case kUint16:
    case kInt16:
      return 2;
    case kUint32:
    case kInt32:
    case kFloat32:
      return 4;
    case kUint64:
    case kInt64:
    case kFloat64:
      return 8;
    default:
      return 0;
  }
}

}  // namespace

class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, const std::string& path)
      : bytes_(bytes), reader_(bytes), path_(path) {}

  Result<GgufFile> parse() {
    file_.path_ = path_;
    RETURN_IF_ERROR(read_header());
    for (uint64_t i = 0; i < metadata_count_; ++i) RETURN_IF_ERROR(read_metadata());
    RETURN_IF_ERROR(read_alignment());
    for (uint64_t i = 0; i < tensor_count_; ++i) RETURN_IF_ERROR(read_tensor_description());
    RETURN_IF_ERROR(place_tensors());
    RETURN_IF_ERROR(check_overlaps());
    return std::move(file_);
  }

 private:
  Status read_header();
  Status read_metadata();
  Result<GgufValue> read_value(uint32_t type, const std::string& where);
  Result<GgufValue> read_array(const std::string& where);
  Status read_alignment();
  Status read_tensor_description();
  Status read_dimensions(GgufTensor& tensor, const std::string& where);
  Status place_tensors();
  Status check_overlaps() const;
  Result<std::string_view> read_string(uint64_t bytes_max, const std::string& where);

  Failure corrupt(const std::string& what) const { return corrupt_at(reader_.offset(), what); }
  Failure corrupt_at(uint64_t offset, const std::string& what) const {
    return fail(Error::kCorrupt, path_ + ": offset " + std::to_string(offset) + ": " + what);
  }
  Failure truncated(const std::string& where) const {
    return corrupt(where + ": the file ends here (" + std::to_string(bytes_.size()) + " bytes)");
  }

  std::span<const std::byte> bytes_;
  ByteReader reader_;
  std::string path_;
  GgufFile file_;
  uint64_t tensor_count_ = 0, metadata_count_ = 0;
  int64_t alignment_ = kDefaultAlignment;
};

Status GgufParser::read_header() {
  const auto magic = reader_.read<uint32_t>();
  if (!magic || *magic != kMagic) {
    return fail(Error::kCorrupt, path_ + ": not a GGUF file: it does not begin with \"GGUF\"");
  }
  const auto version = reader_.read<uint32_t>();
  if (!version) return truncated("version");
  if (*version != 2 && *version != 3) {
    const uint32_t swapped_version = __builtin_bswap32(*version);
    const bool swapped = swapped_version == 2 || swapped_version == 3;
    return fail(Error::kUnsupported, path_ + ": offset 4: " +
                                         (swapped ? std::string("big-endian GGUF files are not supported")
                                                  : "GGUF version " + std::to_string(*version) +
                                                        " is not supported; versions 2 and 3 are"));
  }
  const auto tensors = reader_.read<uint64_t>(), entries = reader_.read<uint64_t>();
  if (!tensors || !entries) return truncated("counts");
  // The smallest metadata entry takes 13 bytes, the smallest tensor description 24.
  if (*entries > reader_.remaining() / 13 || *tensors > reader_.remaining() / 24) {
    return corrupt_at(8, std::to_string(*tensors) + " tensors and " + std::to_string(*entries) +
                             " metadata entries cannot fit in " + std::to_string(bytes_.size()) + " bytes");
  }
  tensor_count_ = *tensors;
  metadata_count_ = *entries;
  return {};
}

Result<std::string_view> GgufParser::read_string(uint64_t bytes_max, const std::string& where) {
  const size_t start = reader_.offset();
  const auto length = reader_.read<uint64_t>();
  if (!length) return truncated(where);
  if (*length > bytes_max || *length > reader_.remaining()) {
    return corrupt_at(start, where + ": a string of " + std::to_string(*length) + " bytes, with " +
                                 std::to_string(reader_.remaining()) + " left in the file");
  }
  return as_text(*reader_.take(*length));
}

Status GgufParser::read_metadata() {
  const size_t start = reader_.offset();
  ASSIGN_OR_RETURN(const std::string_view key, read_string(kKeyBytesMax, "metadata key"));
  const std::string where = "metadata key " + std::string(key.substr(0, 120));
  const auto type = reader_.read<uint32_t>();
  if (!type) return truncated(where);
  ASSIGN_OR_RETURN(GgufValue value, read_value(*type, where));
  if (!file_.metadata_.emplace(std::string(key), std::move(value)).second) {
    return corrupt_at(start, where + " is there twice");
  }
  return {};
}

Result<GgufValue> GgufParser::read_value(uint32_t type, const std::string& where) {
  if (static_cast<GgufValueType>(type) == kString) {
    ASSIGN_OR_RETURN(const std::string_view text, read_string(UINT64_MAX, where));
    return GgufValue(text);
  }
  if (static_cast<GgufValueType>(type) == kArray) return read_array(where);
  const uint64_t size = scalar_bytes(type);
  if (size == 0) return corrupt(where + ": unknown value type " + std::to_string(type));
  if (reader_.remaining() < size) return truncated(where);
  switch (static_cast<GgufValueType>(type)) {
    case kUint8:
      return GgufValue(uint64_t{*reader_.read<uint8_t>()});
    case kInt8:
      return GgufValue(int64_t{*reader_.read<int8_t>()});
    case kUint16:
      return GgufValue(uint64_t{*reader_.read<uint16_t>()});
    case kInt16:
      return GgufValue(int64_t{*reader_.read<int16_t>()});
    case kUint32:
      return GgufValue(uint64_t{*reader_.read<uint32_t>()});
    case kInt32:
      return GgufValue(int64_t{*reader_.read<int32_t>()});
    case kUint64:
      return GgufValue(*reader_.read<uint64_t>());
    case kInt64:
      return GgufValue(*reader_.read<int64_t>());
    case kFloat32:
      return GgufValue(double{*reader_.read<float>()});
    case kFloat64:
      return GgufValue(*reader_.read<double>());
    default:
      return GgufValue(*reader_.read<uint8_t>() != 0);  // kBool: the last type with a size
  }
}

Result<GgufValue> GgufParser::read_array(const std::string& where) {
  const size_t start = reader_.offset();
  const auto element_type = reader_.read<uint32_t>();
  const auto count = element_type ? reader_.read<uint64_t>() : std::nullopt;
  if (!count) return truncated(where);
  GgufArray array{*element_type, *count, {}};
  const size_t first = reader_.offset();
  if (static_cast<GgufValueType>(array.element_type) == kString) {
    if (*count > reader_.remaining() / 8) {
      return corrupt_at(
          start, where + ": an array of " + std::to_string(*count) + " strings does not fit in the file");
    }
    for (uint64_t i = 0; i < *count; ++i) {
      ASSIGN_OR_RETURN([[maybe_unused]] const auto text, read_string(UINT64_MAX, where));
    }
    array.bytes = bytes_.subspan(first, reader_.offset() - first);
    return GgufValue(array);
  }
  const uint64_t size = scalar_bytes(array.element_type);
  if (size == 0) {  // arrays of arrays included: no key of a model uses them
    return corrupt_at(start, where + ": an array of value type " + std::to_string(array.element_type));
  }
  if (*count > reader_.remaining() / size) {
    return corrupt_at(
        start, where + ": an array of " + std::to_string(*count) + " elements does not fit in the file");
  }
  array.bytes = *reader_.take(*count * size);
  return GgufValue(array);
}

Status GgufParser::read_alignment() {
  ASSIGN_OR_RETURN(const std::optional<int64_t> alignment, file_.find_integer("general.alignment"));
  if (!alignment) return {};
  if (*alignment < 8 || *alignment > (1 << 20) || !std::has_single_bit(static_cast<uint64_t>(*alignment))) {
    return fail(Error::kCorrupt, path_ + ": general.alignment is " + std::to_string(*alignment) +
                                     ", not a power of two from 8 to 1048576");
  }
  alignment_ = *alignment;
  return {};
}

Status GgufParser::read_tensor_description() {
  const size_t start = reader_.offset();
  ASSIGN_OR_RETURN(const std::string_view name, read_string(kNameBytesMax, "tensor name"));
  const std::string where = "tensor \"" + std::string(name.substr(0, 120)) + "\"";
  GgufTensor tensor;
  tensor.name = std::string(name);
  RETURN_IF_ERROR(read_dimensions(tensor, where));
  const auto type = reader_.read<uint32_t>();
  const auto offset = type ? reader_.read<uint64_t>() : std::nullopt;
  if (!offset) return truncated(where);
  const GgufTypeInfo* info = find_gguf_type(*type);
  if (info == nullptr) {
    return fail(Error::kUnsupported, path_ + ": offset " + std::to_string(start) + ": " + where + " is of " +
                                         std::string(gguf_type_name(*type)) + " (" + std::to_string(*type) +
                                         "); this build reads " + std::string(supported_gguf_types()));
  }
  if (tensor.shape.back() % info->block_elements != 0) {
    return corrupt_at(start, where + ": rows of " + std::to_string(tensor.shape.back()) +
                                 " elements are not whole blocks of " + std::string(info->name));
  }
  if (*offset > bytes_.size() || *offset % static_cast<uint64_t>(alignment_) != 0) {
    return corrupt_at(start, where + ": data offset " + std::to_string(*offset) +
                                 " is outside the file or not a multiple of the alignment " +
                                 std::to_string(alignment_));
  }
  tensor.type = info->type;
  tensor.offset = static_cast<int64_t>(*offset);  // from the start of the data; place_tensors adds that
  if (!file_.by_name_.emplace(tensor.name, file_.tensors_.size()).second) {
    return corrupt_at(start, where + " is there twice");
  }
  file_.tensors_.push_back(std::move(tensor));
  return {};
}

Status GgufParser::read_dimensions(GgufTensor& tensor, const std::string& where) {
  const auto dimensions = reader_.read<uint32_t>();
  if (!dimensions) return truncated(where);
  if (*dimensions < 1 || *dimensions > kDimensionsMax) {
    return corrupt(where + ": " + std::to_string(*dimensions) + " dimensions");
  }
  std::optional<int64_t> elements = 1;
  for (uint32_t i = 0; i < *dimensions; ++i) {
    const auto size = reader_.read<uint64_t>();
    if (!size) return truncated(where);
    if (*size < 1 || *size > static_cast<uint64_t>(INT64_MAX)) {
      return corrupt(where + ": a dimension of " + std::to_string(*size));
    }
    tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(*size));  // the file names columns first
    if (elements) elements = checked_product(*elements, static_cast<int64_t>(*size));
  }
  if (!elements) return corrupt(where + ": the product of its dimensions overflows");
  return {};
}

Status GgufParser::place_tensors() {
  const int64_t end = static_cast<int64_t>(bytes_.size());
  const int64_t header = static_cast<int64_t>(reader_.offset());
  const int64_t data_start = (header + alignment_ - 1) / alignment_ * alignment_;
  for (GgufTensor& tensor : file_.tensors_) {
    const GgufTypeInfo& info = *find_gguf_type(static_cast<uint32_t>(tensor.type));
    const auto size = checked_product(tensor.elements() / info.block_elements, info.block_bytes);
    tensor.offset += data_start;
    if (!size || tensor.offset > end || *size > end - tensor.offset) {
      return corrupt_at(static_cast<uint64_t>(tensor.offset),
                        "tensor \"" + tensor.name.substr(0, 120) + "\" needs " +
                            (size ? std::to_string(*size) : std::string("more")) +
                            " bytes, but the file ends at " + std::to_string(end) +
                            "; it is truncated or damaged");
    }
    tensor.data = bytes_.subspan(static_cast<size_t>(tensor.offset), static_cast<size_t>(*size));
  }
  return {};
}

Status GgufParser::check_overlaps() const {
  std::vector<size_t> order(file_.tensors_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return file_.tensors_[a].offset < file_.tensors_[b].offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const GgufTensor &before = file_.tensors_[order[i - 1]], &after = file_.tensors_[order[i]];
    if (before.offset + static_cast<int64_t>(before.data.size()) > after.offset) {
      return corrupt_at(
          static_cast<uint64_t>(after.offset),
          "tensor \"" + after.name.substr(0, 120) + "\" overlaps \"" + before.name.substr(0, 120) + "\"");
    }
  }
  return {};
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, const std::string& path) {
  return GgufParser(bytes, path).parse();
}

Result<GgufFile> GgufFile::open(const std::string& path) {
  ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::open(path));
  ASSIGN_OR_RETURN(GgufFile file, parse(mapped.bytes(), path));
  file.file_ = std::move(mapped);
  return file;
}

}  // namespace penstock
