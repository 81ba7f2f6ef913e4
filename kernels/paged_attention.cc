#include "kernels/paged_attention.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/attention_tiles.h"
#include "kernels/isa.h"
#include "kernels/paged_attention_cpu.h"

namespace penstock {
namespace {

AttentionFn attention_fn(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return attention_tile_portable;
    case Isa::kAvx2:
      return attention_tile_avx2;
    case Isa::kAvx512:
    case Isa::kAvx512Bf16:
    case Isa::kAmxBf16:
      return attention_tile_avx512;
  }
  return attention_tile_portable;
}

// How a slice is cut into tiles: runs of rows, times runs of the query heads that share a KV head.
struct Tiling {
  int64_t group, heads, head_runs, rows;
};

Tiling make_tiling(int64_t q_heads, int64_t kv_heads) {
  const int64_t group = q_heads / kv_heads;
  const int64_t heads = std::min(group, kQueriesMax);
  return {group, heads, (group + heads - 1) / heads, kQueriesMax / heads};
}

int64_t tiles_of(const SequenceSlice& slice, const Tiling& tiling, int64_t kv_heads) {
  return (slice.rows + tiling.rows - 1) / tiling.rows * tiling.head_runs * kv_heads;
}

void check_arguments(Matrix<const float> q, const KvLayerView& cache, std::span<const SequenceSlice> slices,
                     Matrix<float> out) {
  CHECK(cache.dtype == DType::kBf16 || cache.dtype == DType::kF32);
  CHECK(cache.head_dim > 0 && cache.head_dim % 16 == 0 && cache.head_dim <= kHeadDimMax);
  CHECK(cache.block_tokens > 0 && cache.block_tokens % kKeyColumn == 0);
  CHECK_EQ(q.cols, out.cols);
  CHECK_EQ(q.cols % (cache.kv_heads * cache.head_dim), 0);
  for (const SequenceSlice& slice : slices) {
    const int64_t end = slice.first_position + slice.rows;
    CHECK(slice.first_row >= 0 && slice.rows > 0 && slice.first_position >= 0);
    CHECK(slice.first_row + slice.rows <= q.rows && slice.first_row + slice.rows <= out.rows);
    CHECK_LE(end, static_cast<int64_t>(slice.block_table.size()) * cache.block_tokens);
    for (int64_t b = 0; b * cache.block_tokens < end; ++b) {
      CHECK_LT(static_cast<int64_t>(slice.block_table[static_cast<size_t>(b)]), cache.blocks);
    }
  }
}

// Tile `index` of a slice: KV head outermost, so that neighbours share keys.
AttentionTask make_task(Matrix<const float> q, const KvLayerView& cache, const SequenceSlice& slice,
                        const Tiling& tiling, int64_t index, float scale, Matrix<float> out) {
  const int64_t row_tiles = (slice.rows + tiling.rows - 1) / tiling.rows;
  // The last rows first: they see the most keys, and long tiles should not come last.
  const int64_t row = (row_tiles - 1 - index % row_tiles) * tiling.rows;
  const int64_t head_run = index / row_tiles % tiling.head_runs,
                kv_head = index / row_tiles / tiling.head_runs;
  const int64_t head = head_run * tiling.heads;
  const int64_t column = (kv_head * tiling.group + head) * cache.head_dim;
  const int64_t kv_offset = kv_head * cache.block_tokens * cache.head_dim * dtype_bytes(cache.dtype);
  return {.q = q.row(slice.first_row + row) + column,
          .q_stride = q.stride,
          .out = out.row(slice.first_row + row) + column,
          .out_stride = out.stride,
          .rows = std::min(tiling.rows, slice.rows - row),
          .heads = std::min(tiling.heads, tiling.group - head),
          .first_position = slice.first_position + row,
          .k = static_cast<const char*>(cache.k) + kv_offset,
          .v = static_cast<const char*>(cache.v) + kv_offset,
          .kv_bf16 = cache.dtype == DType::kBf16,
          .block_bytes = cache.block_elements() * dtype_bytes(cache.dtype),
          .block_tokens = cache.block_tokens,
          .head_dim = cache.head_dim,
          .block_table = slice.block_table.data(),
          .scale = scale};
}

}  // namespace

void paged_attention_cpu(ThreadPool& threads, Isa isa, Matrix<const float> q, const KvLayerView& cache,
                         std::span<const SequenceSlice> slices, float scale, Matrix<float> out) {
  check_arguments(q, cache, slices, out);
  const Tiling tiling = make_tiling(q.cols / cache.head_dim, cache.kv_heads);
  const AttentionFn tile = attention_fn(isa);
  // ends[i]: tiles of slices 0..i
  auto* ends = reinterpret_cast<int64_t*>(
      threads.scratch(static_cast<int64_t>(slices.size() * sizeof(int64_t))).data());
  int64_t tiles = 0;
  for (size_t i = 0; i < slices.size(); ++i) ends[i] = tiles += tiles_of(slices[i], tiling, cache.kv_heads);
  threads.parallel_for(tiles, [&](int64_t chunk) {
    const size_t i = static_cast<size_t>(std::upper_bound(ends, ends + slices.size(), chunk) - ends);
    const int64_t before = i == 0 ? 0 : ends[i - 1];
    tile(make_task(q, cache, slices[i], tiling, chunk - before, scale, out));
  });
}

void paged_attention(Stream& stream, Matrix<const float> q, const KvLayerView& cache,
                     std::span<const SequenceSlice> slices, float scale, Matrix<float> out) {
  CHECK(stream.kind() == DeviceKind::kCpu);
  paged_attention_cpu(stream.threads(), stream.isa(), q, cache, slices, scale, out);
}

}  // namespace penstock
