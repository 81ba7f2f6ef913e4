#include "trainer/data/permutation.h"

#include "base/check.h"
#include "base/rng.h"

namespace penstock::trainer {

Permutation::Permutation(uint64_t seed, uint64_t size) : seed_(seed), size_(size), half_bits_(1) {
  CHECK_LE(size, uint64_t{1} << 62);
  while ((uint64_t{1} << (2 * half_bits_)) < size) ++half_bits_;
}

uint64_t Permutation::shuffle(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_, right = value & mask;
  for (uint64_t round = 0; round < 4; ++round) {
    const uint64_t next = left ^ (mix64(mix64(seed_ + round) ^ right) & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

uint64_t Permutation::operator()(uint64_t index) const {
  CHECK_LT(index, size_);
  do {
    index = shuffle(index);
  } while (index >= size_);
  return index;
}

}  // namespace penstock::trainer
