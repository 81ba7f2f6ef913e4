// Register tiles: y[rows, 32] = x[rows, K] · panel[K, 32], the inner loop of matmul and of prefill attention.
//
// A panel holds 32 output columns, k-major. Each output element is init + x[0] w[0], then + x[1] w[1] and so
// on, one multiply-add a step, whatever ROWS and the vector width: that fixed order is what makes results
// independent of the batch. ROWS bounds how many independent sums hide the latency of the multiply-add.
// Included by files that set their own compile flags; see simd_portable.h for the rules.
#pragma once

#include <cstdint>

#include "kernels/simd_portable.h"

namespace penstock {

// One tile's operands. The sums start at zero, or at `init` ([rows, 32], dense) where K is cut in blocks.
struct TileArgs {
  const float* x;  // [rows, k]
  int64_t x_stride;
  const void* panel;  // f32: [k][32]; bf16: [k][16] pairs (column j, column j + 16)
  int64_t k;
  const float* init;
  float* y;  // [rows, columns]
  int64_t y_stride;
  int64_t columns;       // 32, or fewer in the last panel
  bool add;              // y += the sum
  const char* prefetch;  // what to bring towards the core meanwhile: prefetch_step bytes a step of k
  int64_t prefetch_step;
};

// Vectors (low, high) of group g: columns [g * lanes, ...) and 16 further on.
struct F32Panel {
  template <typename V>
  static void load(const void* panel, int64_t k, int group, V& low, V& high) {
    const float* p = static_cast<const float*>(panel) + k * 32 + group * V::kLanes;
    low = V::load(p);
    high = V::load(p + 16);
  }
};

struct Bf16Panel {
  template <typename V>
  static void load(const void* panel, int64_t k, int group, V& low, V& high) {
    V::load_bf16_pairs(static_cast<const uint32_t*>(panel) + k * 16 + group * V::kLanes, low, high);
  }
};

template <typename V>
struct TileShape {
  static constexpr int kGroups = 16 / V::kLanes;  // per panel
  static constexpr int kRowsMax = V::kRegisters == 32 ? 14 : 6;
  // Groups computed in one pass over the panel: as many as leave the sums in registers.
  static constexpr int groups_at_once(int rows) {
    const int fit = (V::kRegisters == 32 ? 28 : 12) / (2 * rows);
    return fit >= kGroups ? kGroups : (fit >= 2 && kGroups % 2 == 0 ? 2 : 1);
  }
};

// Writes a tile to y: whole vectors, or in the last panel the columns that exist. sums: [ROWS][32].
template <typename V, int ROWS>
__attribute__((noinline)) void add_or_cut(const TileArgs& args, const float* sums) {
  for (int r = 0; r < ROWS; ++r) {
    float* y = args.y + r * args.y_stride;
    if (args.columns == 32) {
      for (int c = 0; c < 32; c += V::kLanes) (V::load(y + c) + V::load(sums + r * 32 + c)).store(y + c);
      continue;
    }
    for (int c = 0; c < args.columns; ++c) y[c] = args.add ? y[c] + sums[r * 32 + c] : sums[r * 32 + c];
  }
}

template <typename V, typename Panel, int ROWS>
__attribute__((noinline)) void compute_tile(const TileArgs& args) {  // inlined, g++ 12 spills the sums
  constexpr int kAtOnce = TileShape<V>::groups_at_once(ROWS);
  const bool whole = args.columns == 32 && !args.add;
  alignas(64) float part[ROWS * 32];
  float* const out = whole ? args.y : part;
  const int64_t out_stride = whole ? args.y_stride : 32;
  for (int first = 0; first < TileShape<V>::kGroups; first += kAtOnce) {
    V sums[ROWS][2 * kAtOnce];
    PENSTOCK_UNROLL
    for (int r = 0; r < ROWS; ++r) {
      PENSTOCK_UNROLL
      for (int v = 0; v < 2 * kAtOnce; ++v) {
        const int column = (first + v / 2) * V::kLanes + (v % 2) * 16;
        sums[r][v] = args.init != nullptr ? V::load(args.init + r * 32 + column) : V::zero();
      }
    }
    // Every third row has a pointer of its own; the two after it are one and two strides further, which an
    // address can express. A pointer for each of 14 rows would not fit into the registers.
    constexpr int kPointers = (ROWS + 2) / 3;
    const int64_t stride = args.x_stride * static_cast<int64_t>(sizeof(float));
    const char* x[kPointers];
    PENSTOCK_UNROLL
    for (int p = 0; p < kPointers; ++p) x[p] = reinterpret_cast<const char*>(args.x) + 3 * p * stride;
    const char* prefetch = args.prefetch;
    for (int64_t k = 0; k < args.k; ++k) {
      __builtin_prefetch(prefetch, 0, 2);
      prefetch += args.prefetch_step;
      V w[2 * kAtOnce];
      PENSTOCK_UNROLL
      for (int g = 0; g < kAtOnce; ++g) Panel::load(args.panel, k, first + g, w[2 * g], w[2 * g + 1]);
      PENSTOCK_UNROLL
      for (int r = 0; r < ROWS; ++r) {
        const V a = V::set(*reinterpret_cast<const float*>(x[r / 3] + r % 3 * stride));
        PENSTOCK_UNROLL
        for (int v = 0; v < 2 * kAtOnce; ++v) sums[r][v] = V::fma(a, w[v], sums[r][v]);
      }
      PENSTOCK_UNROLL
      for (int p = 0; p < kPointers; ++p) {
        x[p] += sizeof(float);
        __asm__("" : "+r"(x[p]));  // keeps the compiler from going back to one pointer a row
      }
    }
    PENSTOCK_UNROLL
    for (int r = 0; r < ROWS; ++r) {
      PENSTOCK_UNROLL
      for (int v = 0; v < 2 * kAtOnce; ++v) {
        sums[r][v].store(out + r * out_stride + (first + v / 2) * V::kLanes + (v % 2) * 16);
      }
    }
  }
  if (!whole) add_or_cut<V, ROWS>(args, part);
}

// compute_tile for 1..kRowsMax rows, chosen at run time.
template <typename V, typename Panel>
inline void compute_rows(int rows, const TileArgs& args) {
  switch (rows) {
    // clang-format off
    case 1: return compute_tile<V, Panel, 1>(args);
    case 2: return compute_tile<V, Panel, 2>(args);
    case 3: return compute_tile<V, Panel, 3>(args);
    case 4: return compute_tile<V, Panel, 4>(args);
    case 5: return compute_tile<V, Panel, 5>(args);
    case 6: return compute_tile<V, Panel, 6>(args);
    default: break;
      // clang-format on
  }
  if constexpr (TileShape<V>::kRowsMax == 14) {
    switch (rows) {
      // clang-format off
      case 7: return compute_tile<V, Panel, 7>(args);
      case 8: return compute_tile<V, Panel, 8>(args);
      case 9: return compute_tile<V, Panel, 9>(args);
      case 10: return compute_tile<V, Panel, 10>(args);
      case 11: return compute_tile<V, Panel, 11>(args);
      case 12: return compute_tile<V, Panel, 12>(args);
      case 13: return compute_tile<V, Panel, 13>(args);
      case 14: return compute_tile<V, Panel, 14>(args);
      default: break;
        // clang-format on
    }
  }
}

// Any number of rows, in tiles of nearly equal height. Rows of args.init follow those of x. Each tile
// prefetches its share of the prefetch_bytes from args.prefetch on.
template <typename V, typename Panel>
inline void compute_panel(int64_t rows, TileArgs args, int64_t prefetch_bytes = 0) {
  const int64_t tiles = (rows + TileShape<V>::kRowsMax - 1) / TileShape<V>::kRowsMax;
  args.prefetch_step = prefetch_bytes / (tiles * args.k);
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int height = static_cast<int>(rows / tiles + (tile < rows % tiles ? 1 : 0));
    compute_rows<V, Panel>(height, args);
    args.x += height * args.x_stride;
    args.y += height * args.y_stride;
    args.prefetch += args.prefetch_step * args.k;
    if (args.init != nullptr) args.init += height * 32;
  }
}

}  // namespace penstock
