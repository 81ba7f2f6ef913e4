#include "model/safetensors.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "model/byte_reader.h"

namespace penstock {
namespace {

// std::map objects: a header may hold a hundred thousand names, and ordered_json looks them up one by one.
using Json = nlohmann::json;

constexpr uint64_t kHeaderBytesMax = 100'000'000;  // the format's own limit
constexpr int64_t kDataOffsetBase = 8;             // the length field in front of the header

struct DtypeSize {
  std::string_view name;
  int64_t bits;
};
constexpr std::array<DtypeSize, 16> kDtypes = {{{"F64", 64},
                                                {"F32", 32},
                                                {"F16", 16},
                                                {"BF16", 16},
                                                {"I64", 64},
                                                {"I32", 32},
                                                {"I16", 16},
                                                {"I8", 8},
                                                {"U64", 64},
                                                {"U32", 32},
                                                {"U16", 16},
                                                {"U8", 8},
                                                {"BOOL", 8},
                                                {"F8_E4M3", 8},
                                                {"F8_E5M2", 8},
                                                {"F8_E8M0", 8}}};

Failure corrupt(const std::string& path, const std::string& what) {
  return fail(Error::kCorrupt, path + ": " + what);
}

std::string in_tensor(std::string_view name) {
  std::string shown(name.substr(0, 120));
  return "tensor \"" + shown + "\"";
}

Result<std::string_view> find_header(std::span<const std::byte> bytes, const std::string& path) {
  ByteReader reader(bytes);
  const auto length = reader.read<uint64_t>();
  if (!length) {
    return corrupt(path, "not a safetensors file: " + std::to_string(bytes.size()) +
                             " bytes, not even the header's length at offset 0");
  }
  if (*length > kHeaderBytesMax || *length > reader.remaining()) {
    return corrupt(path, "offset 0: a header of " + std::to_string(*length) +
                             " bytes does not fit in a file of " + std::to_string(bytes.size()) +
                             "; the file is truncated or no safetensors file");
  }
  const std::string_view header = as_text(*reader.take(*length));
  if (!header.starts_with('{')) return corrupt(path, "offset 8: the header is not a JSON object");
  return header;
}

// Parses the header; a name that occurs twice is found here, since the parser would keep the last one
// silently.
Result<Json> parse_header(std::string_view header, const std::string& path) {
  std::set<std::string> names;
  std::string twice;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 1 && !names.insert(parsed.get<std::string>()).second) {
      twice = parsed.get<std::string>();
    }
    return true;
  };
  try {
    Json json = Json::parse(header, watch);
    if (!twice.empty()) return corrupt(path, in_tensor(twice) + " is in the header twice");
    if (!json.is_object()) return corrupt(path, "offset 8: the header is not a JSON object");
    return json;
  } catch (const Json::parse_error& error) {
    return corrupt(path, "offset " + std::to_string(kDataOffsetBase + static_cast<int64_t>(error.byte)) +
                             ": the header is not valid JSON");
  } catch (const Json::exception& error) {
    return corrupt(path, std::string("the header is not valid JSON: ") + error.what());
  }
}

std::optional<int64_t> non_negative(const Json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const uint64_t number = value.get<uint64_t>();
  if (number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  return static_cast<int64_t>(number);
}

struct Extent {
  int64_t begin, end;  // from the end of the header
};

Result<Extent> read_extent(const Json& entry, int64_t data_bytes, const std::string& where) {
  const auto it = entry.find("data_offsets");
  if (it == entry.end() || !it->is_array() || it->size() != 2) {
    return fail(Error::kCorrupt, where + ": data_offsets must be [begin, end]");
  }
  const auto begin = non_negative((*it)[0]), end = non_negative((*it)[1]);
  if (!begin || !end || *begin > *end || *end > data_bytes) {
    return fail(Error::kCorrupt, where + ": data_offsets " + it->dump() + " do not lie in the " +
                                     std::to_string(data_bytes) +
                                     " bytes of data; the file is truncated or damaged");
  }
  return Extent{*begin, *end};
}

Status read_shape(const Json& entry, const std::string& where, TensorView& tensor) {
  const auto dtype = entry.find("dtype");
  if (dtype == entry.end() || !dtype->is_string()) return fail(Error::kCorrupt, where + ": no dtype");
  tensor.dtype_name = dtype->get<std::string>();
  const auto shape = entry.find("shape");
  if (shape == entry.end() || !shape->is_array() || shape->size() > 8) {
    return fail(Error::kCorrupt, where + ": shape must be a list of at most 8 sizes");
  }
  for (const Json& size : *shape) {
    const auto value = non_negative(size);
    if (!value) return fail(Error::kCorrupt, where + ": shape " + shape->dump() + " is not a list of sizes");
    tensor.shape.push_back(*value);
  }
  return {};
}

// What shape and dtype say the tensor's size is.
Result<int64_t> expected_bytes(const TensorView& tensor, const std::string& where) {
  const auto dtype = std::find_if(kDtypes.begin(), kDtypes.end(),
                                  [&](const DtypeSize& known) { return known.name == tensor.dtype_name; });
  if (dtype == kDtypes.end()) {
    return fail(Error::kUnsupported, where + ": unknown dtype " + tensor.dtype_name.substr(0, 40));
  }
  std::optional<int64_t> bytes = dtype->bits / 8;
  for (const int64_t size : tensor.shape) {
    if (bytes) bytes = checked_product(*bytes, size);
  }
  if (!bytes) return fail(Error::kCorrupt, where + ": the shape's product overflows");
  return *bytes;
}

// The format demands that tensors fill the data exactly, which also excludes overlaps.
Status check_tiling(const std::vector<TensorView>& tensors, int64_t data_start, int64_t file_bytes,
                    const std::string& path) {
  int64_t next = data_start;
  for (const TensorView& tensor : tensors) {
    if (tensor.offset < next) {
      return corrupt(path, in_tensor(tensor.name) + " at offset " + std::to_string(tensor.offset) +
                               " overlaps the tensor before it, which ends at " + std::to_string(next));
    }
    if (tensor.offset > next) {
      return corrupt(path, "a gap of " + std::to_string(tensor.offset - next) + " bytes at offset " +
                               std::to_string(next) + ", before " + in_tensor(tensor.name));
    }
    next += static_cast<int64_t>(tensor.data.size());
  }
  if (next != file_bytes) {
    return corrupt(path, std::to_string(file_bytes - next) + " bytes behind the last tensor, at offset " +
                             std::to_string(next));
  }
  return {};
}

Result<TensorView> read_tensor(const std::string& name, const Json& entry, std::span<const std::byte> bytes,
                               int64_t data_start, const std::string& path) {
  const std::string where = path + ": " + in_tensor(name);
  if (!entry.is_object()) return fail(Error::kCorrupt, where + ": its header entry is not an object");
  TensorView tensor;
  tensor.name = name;
  RETURN_IF_ERROR(read_shape(entry, where, tensor));
  const int64_t data_bytes = static_cast<int64_t>(bytes.size()) - data_start;
  ASSIGN_OR_RETURN(const Extent extent, read_extent(entry, data_bytes, where));
  ASSIGN_OR_RETURN(const int64_t expected, expected_bytes(tensor, where));
  tensor.offset = data_start + extent.begin;
  if (extent.end - extent.begin != expected) {
    return fail(Error::kCorrupt, where + " at offset " + std::to_string(tensor.offset) + ": " +
                                     std::to_string(extent.end - extent.begin) +
                                     " bytes, but dtype and shape need " + std::to_string(expected));
  }
  tensor.data = bytes.subspan(static_cast<size_t>(tensor.offset), static_cast<size_t>(expected));
  return tensor;
}

}  // namespace

int64_t TensorView::elements() const {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

Result<DType> TensorView::dtype() const {
  if (dtype_name == "F32") return DType::kF32;
  if (dtype_name == "BF16") return DType::kBf16;
  if (dtype_name == "F16") return DType::kF16;
  return fail(Error::kUnsupported, in_tensor(name) + " at offset " + std::to_string(offset) + ": dtype " +
                                       dtype_name + " is not supported for weights; F32, BF16 and F16 are");
}

Result<std::vector<TensorView>> SafetensorsFile::parse(std::span<const std::byte> bytes,
                                                       const std::string& path) {
  ASSIGN_OR_RETURN(const std::string_view header, find_header(bytes, path));
  ASSIGN_OR_RETURN(const Json json, parse_header(header, path));
  const int64_t data_start = kDataOffsetBase + static_cast<int64_t>(header.size());
  std::vector<TensorView> tensors;
  for (const auto& [name, entry] : json.items()) {
    if (name == "__metadata__") continue;
    ASSIGN_OR_RETURN(TensorView tensor, read_tensor(name, entry, bytes, data_start, path));
    tensors.push_back(std::move(tensor));
  }
  // Empty tensors share their offset with the next one: they come first.
  std::sort(tensors.begin(), tensors.end(), [](const TensorView& a, const TensorView& b) {
    return std::pair(a.offset, a.data.size()) < std::pair(b.offset, b.data.size());
  });
  RETURN_IF_ERROR(check_tiling(tensors, data_start, static_cast<int64_t>(bytes.size()), path));
  return tensors;
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  SafetensorsFile result;
  result.path_ = path;
  ASSIGN_OR_RETURN(result.file_, MappedFile::open(path));
  ASSIGN_OR_RETURN(result.tensors_, parse(result.file_.bytes(), path));
  result.by_name_.resize(result.tensors_.size());
  for (uint32_t i = 0; i < result.by_name_.size(); ++i) result.by_name_[i] = i;
  std::sort(result.by_name_.begin(), result.by_name_.end(),
            [&](uint32_t a, uint32_t b) { return result.tensors_[a].name < result.tensors_[b].name; });
  return result;
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto it = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [&](uint32_t i, std::string_view key) { return tensors_[i].name < key; });
  return it != by_name_.end() && tensors_[*it].name == name ? &tensors_[*it] : nullptr;
}

}  // namespace penstock
