#include "topology/kv_layout.h"

#include "base/rng.h"

namespace penstock {
namespace {
// Raised whenever the arrangement of bytes inside a pool or a block changes.
constexpr uint64_t kArrangement = 1;
// A block of one plane is put in one piece; larger than this is a mistake in some size.
constexpr int64_t kBlockBytesMax = int64_t{1} << 30;
}  // namespace

Result<KvDtype> parse_kv_dtype(std::string_view name) {
  if (name == "bf16") return KvDtype::kBf16;
  if (name == "f32") return KvDtype::kF32;
  return fail(Error::kInvalidArgument, "KV dtype \"" + std::string(name) + "\": use bf16 or f32");
}

std::string_view kv_dtype_name(KvDtype dtype) { return dtype == KvDtype::kBf16 ? "bf16" : "f32"; }

Status KvLayout::validate() const {
  if (layers < 1 || kv_heads < 1 || head_dim < 1 || block_tokens < 1)
    return fail(Error::kInvalidArgument, "KV layout (" + describe() + "): every size must be at least 1");
  if (block_tokens % kColumnTokens != 0)
    return fail(Error::kInvalidArgument,
                "KV layout (" + describe() + "): block_tokens must be a multiple of 16");
  // Compared by division: the product of four large sizes may not fit in 64 bits.
  if (kBlockBytesMax / element_bytes() / kv_heads / head_dim < block_tokens)
    return fail(Error::kInvalidArgument,
                "KV layout (" + describe() + "): a block of one layer exceeds 1 GiB");
  return {};
}

LayoutHash KvLayout::hash() const {
  uint64_t h = kArrangement;
  for (const int64_t field :
       {int64_t{layers}, int64_t{kv_heads}, int64_t{head_dim}, int64_t{block_tokens}, int64_t(dtype)})
    h = mix64(h ^ static_cast<uint64_t>(field));
  return LayoutHash(h);
}

std::string KvLayout::describe() const {
  return std::to_string(layers) + " layers, " + std::to_string(kv_heads) + " KV heads of " +
         std::to_string(head_dim) + ", blocks of " + std::to_string(block_tokens) + " tokens, " +
         std::string(kv_dtype_name(dtype));
}

}  // namespace penstock
