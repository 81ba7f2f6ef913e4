// Attention of one tile of query vectors over the cached keys and values of one KV head: the CPU code of
// paged_attention as a template over the vector type. See paged_attention.h for the algorithm.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/register_tile.h"

namespace penstock {

inline constexpr int64_t kQueriesMax = 64;  // query vectors of a tile: rows * heads
inline constexpr int64_t kKeysAtOnce = 64;  // positions of one online-softmax update
inline constexpr int64_t kKeyColumn = 16;   // tokens that lie together in K
inline constexpr int64_t kHeadDimMax = 256;

// Query vectors are ordered row by row, each row's heads together; all of them share one KV head.
struct AttentionTask {
  const float* q;  // first row, first head
  int64_t q_stride;
  float* out;
  int64_t out_stride;
  int64_t rows;
  int64_t heads;           // rows * heads <= kQueriesMax
  int64_t first_position;  // of the first row
  const char* k;           // this KV head's part of block 0
  const char* v;
  bool kv_bf16;
  int64_t block_bytes;
  int64_t block_tokens;
  int64_t head_dim;
  const uint32_t* block_table;
  float scale;
};

using AttentionFn = void (*)(const AttentionTask&);
void attention_tile_portable(const AttentionTask& task);
void attention_tile_avx2(const AttentionTask& task);
void attention_tile_avx512(const AttentionTask& task);

// 32 keys as a panel, straight from two columns of a bf16 cache.
struct KeyColumns {
  const uint16_t* column[2];
  template <typename V>
  static void load(const void* panel, int64_t d, int group, V& low, V& high) {
    const auto& keys = *static_cast<const KeyColumns*>(panel);
    low = V::load_bf16(keys.column[0] + d * kKeyColumn + group * V::kLanes);
    high = V::load_bf16(keys.column[1] + d * kKeyColumn + group * V::kLanes);
  }
};

// 32 elements of consecutive values as a panel, straight from a bf16 cache.
struct ValueRows {
  const uint16_t* first;
  int64_t head_dim;
  template <typename V>
  static void load(const void* panel, int64_t token, int group, V& low, V& high) {
    const auto& values = *static_cast<const ValueRows*>(panel);
    const uint16_t* row = values.first + token * values.head_dim + group * V::kLanes;
    low = V::load_bf16(row);
    high = V::load_bf16(row + 16);
  }
};

// Memory of one tile, on the stack: 290 KB.
struct AttentionScratch {
  alignas(64) float q[kQueriesMax * kHeadDimMax];        // [queries][head_dim]
  alignas(64) float keys[kKeysAtOnce * kHeadDimMax];     // panels of 32 keys: [2][head_dim][32]
  alignas(64) float values[kKeysAtOnce * kHeadDimMax];   // panels of 32 elements: [head_dim / 32][64][32]
  alignas(64) float sums[kQueriesMax * kHeadDimMax];     // [head_dim / 32][queries][32]
  alignas(64) float weights[kQueriesMax * kKeysAtOnce];  // scores, then exp(score - highest)
  float highest[kQueriesMax];
  float weight_sum[kQueriesMax];
};

template <typename V>
class AttentionTile {
 public:
  static void run(const AttentionTask& task) {
    AttentionScratch scratch;
    AttentionTile(task, scratch).compute();
  }

 private:
  AttentionTile(const AttentionTask& task, AttentionScratch& scratch) : task_(task), s_(scratch) {}

  void compute() {
    queries_ = task_.rows * task_.heads;
    panels_ = (task_.head_dim + 31) / 32;
    // One pass over the keys: widening them first would bring nothing.
    direct_ = task_.kv_bf16 && task_.head_dim % 32 == 0 && queries_ <= TileShape<V>::kRowsMax;
    gather_queries();
    const int64_t keys = task_.first_position + task_.rows;
    for (int64_t first = 0; first < keys; first += kKeysAtOnce) {
      const int64_t count = keys - first < kKeysAtOnce ? keys - first : kKeysAtOnce;
      score(first, count);
      for (int64_t i = 0; i < queries_; ++i) {
        const int64_t visible = task_.first_position + i / task_.heads + 1 - first;
        update_softmax(i, visible < count ? visible : count, count);
      }
      add_values(first, count);
    }
    write_out();
  }

  void gather_queries() {
    for (int64_t i = 0; i < queries_; ++i) {
      const float* q = task_.q + i / task_.heads * task_.q_stride + i % task_.heads * task_.head_dim;
      for (int64_t d = 0; d < task_.head_dim; d += 16) copy16(q + d, s_.q + i * task_.head_dim + d);
      for (int64_t p = 0; p < panels_; ++p) {
        for (int64_t c = 0; c < 32; c += V::kLanes) V::zero().store(s_.sums + (p * queries_ + i) * 32 + c);
      }
      s_.highest[i] = -INFINITY;
      s_.weight_sum[i] = 0;
    }
  }

  static void copy16(const float* from, float* to) {
    for (int c = 0; c < 16; c += V::kLanes) V::load(from + c).store(to + c);
  }
  static void widen16(const uint16_t* from, float* to) {
    for (int c = 0; c < 16; c += V::kLanes) V::load_bf16(from + c).store(to + c);
  }
  static void clear16(float* to) {
    for (int c = 0; c < 16; c += V::kLanes) V::zero().store(to + c);
  }

  // Where the 16 tokens from `position` on (a multiple of 16) lie; the same offset serves K and V.
  const char* locate(const char* base, int64_t position) const {
    const int64_t element_bytes = task_.kv_bf16 ? 2 : 4;
    const int64_t block = task_.block_table[position / task_.block_tokens];
    return base + block * task_.block_bytes + position % task_.block_tokens * task_.head_dim * element_bytes;
  }

  // What to fetch while `position` is being read: the same place one tile on, or what is being read already.
  const char* prefetch_from(const char* base, int64_t position) const {
    const int64_t next = position + kKeysAtOnce;
    return locate(base, next < task_.first_position + task_.rows ? next : position);
  }

  // weights[i][j] = q[i] . key[first + j], in panels of 32 keys.
  void score(int64_t first, int64_t count) {
    for (int64_t j = 0; j < count; j += 32) {
      TileArgs args{.x = s_.q,
                    .x_stride = task_.head_dim,
                    .panel = s_.keys,
                    .k = task_.head_dim,
                    .init = nullptr,
                    .y = s_.weights + j,
                    .y_stride = kKeysAtOnce,
                    .columns = 32,
                    .add = false,
                    .prefetch = nullptr,
                    .prefetch_step = 0};
      const char* low = locate(task_.k, first + j);
      const char* high = j + 16 < count ? locate(task_.k, first + j + 16) : nullptr;
      if (direct_) {
        // The upper half of a panel without keys is computed from the lower half's and masked away.
        const KeyColumns columns{{reinterpret_cast<const uint16_t*>(low),
                                  reinterpret_cast<const uint16_t*>(high != nullptr ? high : low)}};
        args.panel = &columns;
        args.prefetch = prefetch_from(task_.k, first + j);
        compute_panel<V, KeyColumns>(queries_, args, 32 * task_.head_dim * 2);
      } else {
        widen_keys(low, 0);
        widen_keys(high, 16);
        compute_panel<V, F32Panel>(queries_, args);
      }
    }
  }

  void widen_keys(const char* column, int64_t offset) {
    for (int64_t d = 0; d < task_.head_dim; ++d) {
      float* to = s_.keys + d * 32 + offset;
      if (column == nullptr) {
        clear16(to);
      } else if (task_.kv_bf16) {
        widen16(reinterpret_cast<const uint16_t*>(column) + d * kKeyColumn, to);
      } else {
        copy16(reinterpret_cast<const float*>(column) + d * kKeyColumn, to);
      }
    }
  }

  // Of query i's `count` scores the first `visible` are real (none, where a tile lies wholly beyond the row:
  // then nothing changes). Vectors beyond them add exact zeros wherever they are computed, so results do not
  // depend on `count`.
  void update_softmax(int64_t i, int64_t visible, int64_t count) {
    float* weights = s_.weights + i * kKeysAtOnce;
    int64_t done = 0;
    if (visible > 0) {
      const V scale = V::set(task_.scale), minus_infinity = V::set(-INFINITY);
      V highest = minus_infinity;
      for (int64_t j = 0; j < visible; j += V::kLanes) {
        const V score = V::first(visible - j, V::load(weights + j) * scale, minus_infinity);
        score.store(weights + j);
        highest = V::max(score, highest);
      }
      const float old_highest = s_.highest[i];
      const float new_highest = std::fmax(old_highest, highest.highest());
      const V shift = V::set(new_highest);
      V sum = V::zero();
      for (; done < visible; done += V::kLanes) {
        const V weight = V::first(visible - done, simd_exp(V::load(weights + done) - shift), V::zero());
        weight.store(weights + done);
        sum = sum + weight;
      }
      if (new_highest != old_highest)
        rescale(i, V::set(old_highest) - shift);  // else the factor is exactly 1
      s_.weight_sum[i] += sum.sum();
      s_.highest[i] = new_highest;
    }
    for (; done < count; done += V::kLanes) V::zero().store(weights + done);
  }

  // What was summed under the old maximum, brought under the new one. log_factor: -inf at the first tile.
  void rescale(int64_t i, V log_factor) {
    const V factor = simd_exp(log_factor);
    float lanes[V::kLanes];
    factor.store(lanes);
    s_.weight_sum[i] *= lanes[0];
    for (int64_t p = 0; p < panels_; ++p) {
      float* sums = s_.sums + (p * queries_ + i) * 32;
      for (int c = 0; c < 32; c += V::kLanes) (V::load(sums + c) * factor).store(sums + c);
    }
  }

  // sums[i] += weights[i][j] * value[first + j], j rising.
  void add_values(int64_t first, int64_t count) {
    // Values lie together as far as a block reaches; shorter runs change no result.
    const int64_t run = task_.block_tokens % kKeysAtOnce == 0 ? kKeysAtOnce : kKeyColumn;
    for (int64_t j = 0; j < count; j += run) {
      const int64_t tokens = count - j < run ? count - j : run;
      const char* rows = locate(task_.v, first + j);
      if (!direct_) widen_values(rows, tokens);
      for (int64_t p = 0; p < panels_; ++p) {
        float* sums = s_.sums + p * queries_ * 32;
        TileArgs args{.x = s_.weights + j,
                      .x_stride = kKeysAtOnce,
                      .panel = s_.values + p * kKeysAtOnce * 32,
                      .k = tokens,
                      .init = sums,
                      .y = sums,
                      .y_stride = 32,
                      .columns = 32,
                      .add = false,
                      .prefetch = nullptr,
                      .prefetch_step = 0};
        if (direct_) {
          const ValueRows values{reinterpret_cast<const uint16_t*>(rows) + p * 32, task_.head_dim};
          args.panel = &values;
          args.prefetch = prefetch_from(task_.v, first + j) + p * tokens * 64;
          compute_panel<V, ValueRows>(queries_, args, tokens * 64);
        } else {
          compute_panel<V, F32Panel>(queries_, args);
        }
      }
    }
  }

  void widen_values(const char* rows, int64_t tokens) {
    for (int64_t d = 0; d < panels_ * 32; d += 16) {
      float* panel = s_.values + d / 32 * kKeysAtOnce * 32 + d % 32;
      for (int64_t t = 0; t < tokens; ++t) {
        const int64_t element = t * task_.head_dim + d;
        if (d >= task_.head_dim) {
          clear16(panel + t * 32);
        } else if (task_.kv_bf16) {
          widen16(reinterpret_cast<const uint16_t*>(rows) + element, panel + t * 32);
        } else {
          copy16(reinterpret_cast<const float*>(rows) + element, panel + t * 32);
        }
      }
    }
  }

  void write_out() {
    for (int64_t i = 0; i < queries_; ++i) {
      float* out = task_.out + i / task_.heads * task_.out_stride + i % task_.heads * task_.head_dim;
      const V factor = V::set(1 / s_.weight_sum[i]);
      for (int64_t d = 0; d < task_.head_dim; d += V::kLanes) {
        const float* sums = s_.sums + (d / 32 * queries_ + i) * 32 + d % 32;
        (V::load(sums) * factor).store(out + d);
      }
    }
  }

  const AttentionTask& task_;
  AttentionScratch& s_;
  int64_t queries_ = 0;
  int64_t panels_ = 0;
  bool direct_ = false;
};

}  // namespace penstock
