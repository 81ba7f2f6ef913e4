#include "kv_transfer/block_digest.h"

#include <xxh_x86dispatch.h>

#include <algorithm>

#include "base/check.h"

namespace penstock {

uint64_t block_digest(const std::byte* data, size_t bytes) { return XXH3_64bits(data, bytes); }

uint64_t TransferDigest::combined() const {
  CHECK(std::find(known_.begin(), known_.end(), false) == known_.end());
  return XXH3_64bits(digests_.data(), digests_.size() * sizeof(uint64_t));
}

}  // namespace penstock
