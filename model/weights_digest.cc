#include "model/weights_digest.h"

#include <xxh_x86dispatch.h>

#include <algorithm>
#include <sstream>
#include <vector>

namespace penstock {
namespace {

uint64_t digest_of(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

uint64_t config_digest(const ModelConfig& config, DType dtype) {
  std::ostringstream text;
  text << std::hexfloat << config.architecture << ' ' << config.heads << ' ' << config.kv_heads << ' '
       << config.head_dim << ' ' << config.rms_norm_eps << ' ' << config.rope_theta << ' '
       << config.tied_embeddings << ' ' << static_cast<int>(dtype);
  if (const auto& scaling = config.rope_llama3)
    text << " llama3 " << scaling->factor << ' ' << scaling->low_freq_factor << ' '
         << scaling->high_freq_factor << ' ' << scaling->original_context;
  return digest_of(text.str());
}

uint64_t tensor_digest(const TensorView& tensor) {
  std::ostringstream text;
  text << tensor.name << ' ' << tensor.dtype_name;
  for (const int64_t size : tensor.shape) text << ' ' << size;
  return XXH3_64bits_withSeed(tensor.data.data(), tensor.data.size(), digest_of(text.str()));
}

}  // namespace

uint64_t weights_digest(const Checkpoint& checkpoint, const ModelConfig& config, DType dtype,
                        ThreadPool& threads) {
  std::vector<const TensorView*> tensors;
  for (const SafetensorsFile& file : checkpoint.files()) {
    for (const TensorView& tensor : file.tensors()) tensors.push_back(&tensor);
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorView* a, const TensorView* b) { return a->name < b->name; });
  std::vector<uint64_t> digests(tensors.size() + 1);
  threads.parallel_for(static_cast<int64_t>(tensors.size()), [&](int64_t i) {
    digests[static_cast<size_t>(i)] = tensor_digest(*tensors[static_cast<size_t>(i)]);
  });
  digests.back() = config_digest(config, dtype);
  return std::max<uint64_t>(1, XXH3_64bits(digests.data(), digests.size() * sizeof(uint64_t)));
}

}  // namespace penstock
