#include "fabric/communicator_reduce.h"

#include <algorithm>
#include <cstring>

#include "kernels/dtype.h"

namespace penstock {
namespace {

constexpr int64_t kTile = 1024;  // the sums of one tile stay in the first-level cache

// How an element is stored, and what it is added in.
template <typename Stored, typename Sum>
struct Plain {
  using stored = Stored;
  using sum = Sum;
  static Sum widen(Stored x) { return static_cast<Sum>(x); }
  static Stored narrow(Sum x) { return static_cast<Stored>(x); }
};
struct Narrow16 {
  using stored = Bf16;
  using sum = float;
  static float widen(Bf16 x) { return to_float(x); }
  static Bf16 narrow(float x) { return to_bf16(x); }
};

struct Add {
  template <typename T>
  T operator()(T a, T b) const {
    return a + b;
  }
};
struct Max {
  template <typename T>
  T operator()(T a, T b) const {
    return b > a || b != b ? b : a;
  }
};

template <typename Element, typename Combine>
void reduce(std::span<const std::byte* const> inputs, std::byte* output, int64_t count, Combine combine) {
  using Stored = typename Element::stored;
  typename Element::sum sums[kTile];
  for (int64_t begin = 0; begin < count; begin += kTile) {
    const int64_t n = std::min(kTile, count - begin);
    const auto* first = reinterpret_cast<const Stored*>(inputs[0]) + begin;
    for (int64_t i = 0; i < n; ++i) sums[i] = Element::widen(first[i]);
    for (const std::byte* input : inputs.subspan(1)) {
      const auto* next = reinterpret_cast<const Stored*>(input) + begin;
      for (int64_t i = 0; i < n; ++i) sums[i] = combine(sums[i], Element::widen(next[i]));
    }
    auto* result = reinterpret_cast<Stored*>(output) + begin;
    for (int64_t i = 0; i < n; ++i) result[i] = Element::narrow(sums[i]);
  }
}

template <typename Combine>
void reduce_type(std::span<const std::byte* const> inputs, std::byte* output, int64_t count, ElementType type,
                 Combine combine) {
  switch (type) {
    case ElementType::kF32:
      return reduce<Plain<float, float>>(inputs, output, count, combine);
    case ElementType::kBf16:
      return reduce<Narrow16>(inputs, output, count, combine);
    case ElementType::kF64:
      return reduce<Plain<double, double>>(inputs, output, count, combine);
    case ElementType::kI32:  // wide enough that no sum of 2^32 ranks overflows on the way
      return reduce<Plain<int32_t, int64_t>>(inputs, output, count, combine);
    case ElementType::kU8:
      return reduce<Plain<uint8_t, int64_t>>(inputs, output, count, combine);
  }
}

}  // namespace

void reduce_in_order(std::span<const std::byte* const> inputs, std::byte* output, int64_t count,
                     ElementType type, Reduction reduction) {
  if (reduction == Reduction::kSum)
    reduce_type(inputs, output, count, type, Add());
  else
    reduce_type(inputs, output, count, type, Max());
}

}  // namespace penstock
