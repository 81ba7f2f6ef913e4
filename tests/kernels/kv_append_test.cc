#include "kernels/kv_append.h"

#include <gtest/gtest.h>

#include "kernels/kv_append_cpu.h"
#include "tests/kernels/random_data.h"
#include "tests/reference/kv_pool_reference.h"

namespace penstock {
namespace {

template <typename T>
T converted(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    return to_bf16(value);
  }
}
uint32_t bits(float value) { return std::bit_cast<uint32_t>(value); }
uint32_t bits(Bf16 value) { return value.bits; }

// Writes three slices (a prefill chunk across block ends, a single token, a chunk that starts in the middle
// of a block), then compares the whole pool with what the naive index formula says; the rest must keep its
// bytes.
template <typename T>
void check_append(int64_t kv_heads, int64_t head_dim, int64_t block_tokens, int threads) {
  constexpr int64_t kBlocks = 12;
  const reference::PoolShape shape{kv_heads, head_dim, block_tokens};
  const int64_t elements = kBlocks * shape.block_elements(), cols = kv_heads * head_dim;
  const T untouched = converted<T>(-7.5F);
  std::vector<T> k_pool(static_cast<size_t>(elements), untouched), v_pool = k_pool;
  std::vector<T> k_expected = k_pool, v_expected = k_pool;

  const std::vector<uint32_t> table_a = {7, 0, 11}, table_b = {3, 9}, table_c = {5, 1};
  const std::vector<SequenceSlice> slices = {
      {.first_row = 1, .rows = 2 * block_tokens + 5, .first_position = 3, .block_table = table_a},
      {.first_row = 2 * block_tokens + 6, .rows = 1, .first_position = block_tokens, .block_table = table_b},
      {.first_row = 2 * block_tokens + 8,
       .rows = 20,
       .first_position = block_tokens - 7,
       .block_table = table_c}};
  const int64_t rows = 2 * block_tokens + 29, stride = 2 * cols + 3;  // K and V as slices of a wider matrix
  Rng rng(21);
  const std::vector<float> fused = random_floats(rng, rows * stride);
  const Matrix<const float> whole(fused.data(), rows, 2 * cols, stride);
  ThreadPool pool(threads);
  const KvLayerView cache{k_pool.data(), v_pool.data(), kDTypeOf<T>, kBlocks,
                          block_tokens,  kv_heads,      head_dim};
  kv_append_cpu(pool, whole.col_slice(0, cols), whole.col_slice(cols, cols), cache, slices);

  for (const SequenceSlice& slice : slices) {
    for (int64_t i = 0; i < slice.rows; ++i) {
      const int64_t position = slice.first_position + i, slot = position % block_tokens;
      const int64_t block = slice.block_table[static_cast<size_t>(position / block_tokens)];
      const float* row = whole.row(slice.first_row + i);
      for (int64_t c = 0; c < cols; ++c) {
        const int64_t head = c / head_dim, d = c % head_dim;
        k_expected[static_cast<size_t>(reference::k_index(shape, block, slot, head, d))] =
            converted<T>(row[c]);
        v_expected[static_cast<size_t>(reference::v_index(shape, block, slot, head, d))] =
            converted<T>(row[cols + c]);
      }
    }
  }
  for (size_t i = 0; i < k_pool.size(); ++i) {
    ASSERT_EQ(bits(k_pool[i]), bits(k_expected[i])) << "K at " << i;
    ASSERT_EQ(bits(v_pool[i]), bits(v_expected[i])) << "V at " << i;
  }
}

TEST(KvAppend, WritesBf16WhereTheLayoutSays) {
  check_append<Bf16>(3, 64, 64, 1);
  check_append<Bf16>(1, 16, 32, 2);
  check_append<Bf16>(2, 128, 64, 2);
}

TEST(KvAppend, WritesF32WhereTheLayoutSays) {
  check_append<float>(3, 64, 64, 2);
  check_append<float>(2, 48, 128, 1);
}

TEST(KvAppendDeathTest, ABlockOutsideThePoolIsABug) {
  std::vector<float> pool(64 * 16), row(16);
  const std::vector<uint32_t> table = {1};
  const SequenceSlice slice{.first_row = 0, .rows = 1, .first_position = 0, .block_table = table};
  const Matrix<const float> x(row.data(), 1, 16);
  ThreadPool threads(1);
  const KvLayerView cache{pool.data(), pool.data(), DType::kF32, 1, 64, 1, 16};
  EXPECT_DEATH(kv_append_cpu(threads, x, x, cache, std::span(&slice, 1)), "CHECK failed");
}

}  // namespace
}  // namespace penstock
