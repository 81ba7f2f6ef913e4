// Digests of KV blocks. A block of one plane has its own XXH3-64, so that both sides may digest in any order
// while bytes still move; a transfer's digest is the XXH3-64 of all block digests (little-endian), by plane
// (layer 0 keys, layer 0 values, layer 1 keys ...), then by position in the sequence. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock {

// Same value on every machine; dispatched to the widest instructions it has.
[[nodiscard]] uint64_t block_digest(const std::byte* data, size_t bytes);

// The digests of one transfer, filled in any order.
class TransferDigest {
 public:
  TransferDigest() = default;
  TransferDigest(size_t planes, size_t blocks)
      : blocks_(blocks), digests_(planes * blocks), known_(planes * blocks) {}
  bool known(size_t plane, size_t position) const { return known_[plane * blocks_ + position]; }
  void set(size_t plane, size_t position, uint64_t digest) {
    digests_[plane * blocks_ + position] = digest;
    known_[plane * blocks_ + position] = true;
  }
  [[nodiscard]] uint64_t combined() const;  // every block must be known

 private:
  size_t blocks_ = 0;
  std::vector<uint64_t> digests_;
  std::vector<bool> known_;
};

}  // namespace penstock
