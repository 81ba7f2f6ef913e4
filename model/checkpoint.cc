#include "model/checkpoint.h"

#include <unistd.h>

#include <map>
#include <set>

#include "model/json_fields.h"
#include "model/read_file.h"

namespace penstock {
namespace {

constexpr int64_t kIndexBytesMax = int64_t{64} << 20;

std::string show_shape(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

// weight_map of an index: tensor -> shard.
Result<std::map<std::string, std::string>> read_index(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, read_file(path, kIndexBytesMax));
  ASSIGN_OR_RETURN(const auto json, parse_json_object(text, path));
  const auto weight_map = json.find("weight_map");
  if (weight_map == json.end() || !weight_map->is_object()) {
    return fail(Error::kCorrupt, path + ": \"weight_map\" must be an object of tensor names and shard files");
  }
  std::map<std::string, std::string> shards;
  for (const auto& [tensor, file] : weight_map->items()) {
    // A plain file name: an index may not point outside its folder.
    if (!file.is_string() || file.get_ref<const std::string&>().empty() ||
        file.get_ref<const std::string&>().find('/') != std::string::npos) {
      return fail(Error::kCorrupt, path + ": tensor \"" + tensor + "\" must name a file of this folder");
    }
    shards.emplace(tensor, file.get<std::string>());
  }
  return shards;
}

const SafetensorsFile* file_with(const std::vector<SafetensorsFile>& files, std::string_view name) {
  for (const SafetensorsFile& file : files) {
    if (file.find(name) != nullptr) return &file;
  }
  return nullptr;
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::string& dir) {
  Checkpoint checkpoint;
  checkpoint.dir_ = dir;
  const std::string single = dir + "/model.safetensors", index = dir + "/model.safetensors.index.json";
  if (::access(single.c_str(), F_OK) == 0) {
    ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::open(single));
    checkpoint.files_.push_back(std::move(file));
    return checkpoint;
  }
  if (::access(index.c_str(), F_OK) != 0) {
    return fail(Error::kNotFound,
                dir + ": neither model.safetensors nor model.safetensors.index.json is here");
  }
  ASSIGN_OR_RETURN(const auto shards, read_index(index));
  std::set<std::string> names;
  for (const auto& [tensor, shard] : shards) names.insert(shard);
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::open(dir + "/" + name));
    for (const TensorView& tensor : file.tensors()) {
      if (file_with(checkpoint.files_, tensor.name) != nullptr) {
        return fail(Error::kCorrupt,
                    file.path() + ": tensor \"" + tensor.name + "\" is in another shard too");
      }
    }
    checkpoint.files_.push_back(std::move(file));
  }
  for (const auto& [tensor, shard] : shards) {
    if (file_with(checkpoint.files_, tensor) == nullptr) {
      return fail(Error::kCorrupt, dir + "/" + shard + ": tensor \"" + tensor + "\", which " + index +
                                       " places here, is missing");
    }
  }
  return checkpoint;
}

Result<TensorView> Checkpoint::find(std::string_view name, const std::vector<int64_t>& shape) const {
  const SafetensorsFile* file = file_with(files_, name);
  if (file == nullptr) {
    const std::string& where = files_.size() == 1 ? files_.front().path() : dir_;
    return fail(Error::kCorrupt, where + ": tensor \"" + std::string(name) + "\" is missing");
  }
  const TensorView& tensor = *file->find(name);
  const std::string where =
      file->path() + ": tensor \"" + tensor.name + "\" at offset " + std::to_string(tensor.offset);
  if (tensor.shape != shape) {
    return fail(Error::kCorrupt, where + ": shape " + show_shape(tensor.shape) + ", but config.json needs " +
                                     show_shape(shape));
  }
  auto dtype = tensor.dtype();
  if (!dtype.ok()) return fail(dtype.code(), file->path() + ": " + dtype.message());
  if (tensor.offset % dtype_bytes(*dtype) != 0) {
    return fail(Error::kUnsupported, where +
                                         ": not aligned to its element size; save the file again with a "
                                         "current version of safetensors");
  }
  return tensor;
}

bool Checkpoint::contains(std::string_view name) const { return file_with(files_, name) != nullptr; }

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const SafetensorsFile& file : files_) {
    for (const TensorView& tensor : file.tensors()) names.push_back(tensor.name);
  }
  return names;
}

int64_t Checkpoint::bytes() const {
  int64_t sum = 0;
  for (const SafetensorsFile& file : files_) {
    for (const TensorView& tensor : file.tensors()) sum += static_cast<int64_t>(tensor.data.size());
  }
  return sum;
}

}  // namespace penstock
