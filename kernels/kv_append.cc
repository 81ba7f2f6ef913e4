#include "kernels/kv_append.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/kv_append_cpu.h"

namespace penstock {
namespace {

void store(float value, float& to) { to = value; }
void store(float value, Bf16& to) { to = to_bf16(value); }

// One row of K and V into one slot of a block; k_block and v_block point at the block.
template <typename T>
void append_row(const float* k, const float* v, const KvLayerView& cache, int64_t slot, T* k_block,
                T* v_block) {
  const int64_t head_elements = cache.block_tokens * cache.head_dim;
  for (int64_t head = 0; head < cache.kv_heads; ++head) {
    T* k_column = k_block + head * head_elements + slot / 16 * 16 * cache.head_dim + slot % 16;
    T* v_row = v_block + head * head_elements + slot * cache.head_dim;
    for (int64_t d = 0; d < cache.head_dim; ++d) store(k[head * cache.head_dim + d], k_column[d * 16]);
    for (int64_t d = 0; d < cache.head_dim; ++d) store(v[head * cache.head_dim + d], v_row[d]);
  }
}

template <typename T>
void append_slice(Matrix<const float> k, Matrix<const float> v, const KvLayerView& cache,
                  const SequenceSlice& slice, int64_t first, int64_t end) {
  for (int64_t i = first; i < end; ++i) {
    const int64_t position = slice.first_position + i;
    const int64_t block = slice.block_table[static_cast<size_t>(position / cache.block_tokens)];
    const int64_t offset = block * cache.block_elements();
    append_row(k.row(slice.first_row + i), v.row(slice.first_row + i), cache, position % cache.block_tokens,
               static_cast<T*>(cache.k) + offset, static_cast<T*>(cache.v) + offset);
  }
}

// Rows [first, end) of all slices, counted one slice after another.
void append_rows(Matrix<const float> k, Matrix<const float> v, const KvLayerView& cache,
                 std::span<const SequenceSlice> slices, int64_t first, int64_t end) {
  for (const SequenceSlice& slice : slices) {
    const int64_t begin = std::clamp<int64_t>(first, 0, slice.rows), stop = std::min(end, slice.rows);
    if (cache.dtype == DType::kBf16) {
      append_slice<Bf16>(k, v, cache, slice, begin, stop);
    } else {
      append_slice<float>(k, v, cache, slice, begin, stop);
    }
    first -= slice.rows;
    end -= slice.rows;
    if (end <= 0) return;
  }
}

void check_arguments(Matrix<const float> k, Matrix<const float> v, const KvLayerView& cache,
                     std::span<const SequenceSlice> slices) {
  CHECK(cache.dtype == DType::kBf16 || cache.dtype == DType::kF32);
  CHECK_EQ(cache.block_tokens % 16, 0);
  CHECK_EQ(k.cols, cache.kv_heads * cache.head_dim);
  CHECK_EQ(v.cols, k.cols);
  for (const SequenceSlice& slice : slices) {
    CHECK(slice.first_row >= 0 && slice.rows > 0 && slice.first_position >= 0);
    CHECK(slice.first_row + slice.rows <= k.rows && slice.first_row + slice.rows <= v.rows);
    const int64_t last = slice.first_position + slice.rows - 1;
    CHECK_LT(last / cache.block_tokens, static_cast<int64_t>(slice.block_table.size()));
    for (int64_t b = slice.first_position / cache.block_tokens; b <= last / cache.block_tokens; ++b) {
      CHECK_LT(static_cast<int64_t>(slice.block_table[static_cast<size_t>(b)]), cache.blocks);
    }
  }
}

}  // namespace

void kv_append_cpu(ThreadPool& threads, Matrix<const float> k, Matrix<const float> v,
                   const KvLayerView& cache, std::span<const SequenceSlice> slices) {
  check_arguments(k, v, cache, slices);
  int64_t rows = 0;
  for (const SequenceSlice& slice : slices) rows += slice.rows;
  // A row costs about a microsecond: its K touches a cache line for every two elements. Rows of a prompt
  // share those lines, rows of a decode batch do not.
  const int64_t at_once = rows > 64 ? 32 : 4;
  threads.parallel_for((rows + at_once - 1) / at_once, [&](int64_t chunk) {
    append_rows(k, v, cache, slices, chunk * at_once, std::min((chunk + 1) * at_once, rows));
  });
}

void kv_append(Stream& stream, Matrix<const float> k, Matrix<const float> v, const KvLayerView& cache,
               std::span<const SequenceSlice> slices) {
  CHECK(stream.kind() == DeviceKind::kCpu);
  kv_append_cpu(stream.threads(), k, v, cache, slices);
}

}  // namespace penstock
