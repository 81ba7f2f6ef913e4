// A pseudo-random permutation of [0, size) with random access and no memory.
//
// Four rounds of a Feistel network over the smallest even number of bits that holds `size`, keyed by the
// seed; values beyond `size` walk on until they fall inside (Black, Rogaway, CT-RSA'02), three more steps on
// average. Same seed and size, same permutation, everywhere.
#pragma once

#include <cstdint>

namespace penstock::trainer {

class Permutation {
 public:
  Permutation(uint64_t seed, uint64_t size);  // size <= 2^62
  uint64_t size() const { return size_; }
  uint64_t operator()(uint64_t index) const;  // index < size

 private:
  uint64_t shuffle(uint64_t value) const;
  uint64_t seed_;
  uint64_t size_;
  int half_bits_;
};

}  // namespace penstock::trainer
