// KvLayout: where every byte of a KV pool lies. Pure arithmetic, a plain value.
//
// A pool of B blocks is `[layer][K or V][block]`; one (layer, K or V) run of B blocks is a plane. A block of
// one plane holds `block_tokens` positions of every KV head:
//   K: [kv head][token / 16][head_dim][token % 16]   columns of 16 tokens, as attention kernels read them
//   V: [kv head][token][head_dim]
// Two nodes whose layouts hash alike agree on the meaning of every byte of a block, whatever their pool
// sizes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"

namespace penstock {

enum class KvDtype : uint8_t { kBf16 = 0, kF32 = 1 };

[[nodiscard]] Result<KvDtype> parse_kv_dtype(std::string_view name);  // "bf16" or "f32"
[[nodiscard]] std::string_view kv_dtype_name(KvDtype dtype);

struct KvLayout {
  static constexpr int32_t kColumnTokens = 16;  // tokens side by side in a K column

  int32_t layers = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t block_tokens = 64;
  KvDtype dtype = KvDtype::kBf16;

  // Every size positive, block_tokens a multiple of kColumnTokens, and a block small enough to address.
  [[nodiscard]] Status validate() const;

  constexpr int64_t element_bytes() const { return dtype == KvDtype::kBf16 ? 2 : 4; }
  // Elements and bytes of one head of one block of one plane.
  constexpr int64_t head_elements() const { return int64_t{block_tokens} * head_dim; }
  constexpr int64_t head_bytes() const { return head_elements() * element_bytes(); }
  // Bytes of one block of one plane.
  constexpr int64_t block_bytes() const { return kv_heads * head_bytes(); }
  constexpr int64_t planes() const { return int64_t{2} * layers; }
  // Bytes of one block in all planes: what one more block of pool costs.
  constexpr int64_t block_bytes_all() const { return planes() * block_bytes(); }
  // Bytes of KV of one position in all planes.
  constexpr int64_t token_bytes() const { return planes() * kv_heads * head_dim * element_bytes(); }
  constexpr int64_t pool_bytes(int64_t pool_blocks) const { return pool_blocks * block_bytes_all(); }
  // How many blocks fit in so many bytes; how many blocks hold so many tokens.
  constexpr int64_t blocks_in(int64_t bytes) const { return bytes / block_bytes_all(); }
  constexpr int64_t blocks_for(int64_t tokens) const { return (tokens + block_tokens - 1) / block_tokens; }

  constexpr int64_t plane_offset(int32_t layer, bool is_value, int64_t pool_blocks) const {
    return (int64_t{2} * layer + (is_value ? 1 : 0)) * pool_blocks * block_bytes();
  }
  constexpr int64_t block_offset(int32_t layer, bool is_value, int64_t block, int64_t pool_blocks) const {
    return plane_offset(layer, is_value, pool_blocks) + block * block_bytes();
  }
  // Index, in elements from the start of the block, of dimension `dim` of the key (value) of `token`.
  constexpr int64_t key_element(int32_t head, int32_t token, int32_t dim) const {
    const int64_t column = token / kColumnTokens;
    return head * head_elements() + (column * head_dim + dim) * kColumnTokens + token % kColumnTokens;
  }
  constexpr int64_t value_element(int32_t head, int32_t token, int32_t dim) const {
    return head * head_elements() + int64_t{token} * head_dim + dim;
  }

  // Changes with every field and with the arrangement above (kArrangement in the .cc).
  [[nodiscard]] LayoutHash hash() const;
  // "30 layers, 3 KV heads of 64, blocks of 64 tokens, bf16": for error messages that name both sides.
  [[nodiscard]] std::string describe() const;

  friend bool operator==(const KvLayout&, const KvLayout&) = default;
};

}  // namespace penstock
