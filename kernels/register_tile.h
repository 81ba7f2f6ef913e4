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
  int64_t columns;  // 32, or fewer in the last panel
  bool add;         // y += the sum
};

// Vectors (low, high) of group g: columns [g * lanes, ...) and 16 further on.
struct F32Panel {
  static constexpr int kRowBytes = 128;
  template <typename V>
  static void load(const void* panel, int64_t k, int group, V& low, V& high) {
    const float* p = static_cast<const float*>(panel) + k * 32 + group * V::kLanes;
    low = V::load(p);
    high = V::load(p + 16);
  }
};

struct Bf16Panel {
  static constexpr int kRowBytes = 64;
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

// Writes the vectors of one row of a tile, columns beyond args.columns left out.
template <typename V, int GROUPS>
inline void store_tile_row(const TileArgs& args, int row, int first_group, const V (&sums)[2 * GROUPS]) {
  float* y = args.y + row * args.y_stride;
  PENSTOCK_UNROLL
  for (int v = 0; v < 2 * GROUPS; ++v) {
    const int column = (first_group + v / 2) * V::kLanes + (v % 2) * 16;
    if (column + V::kLanes <= args.columns) {
      const V old = args.add ? V::load(y + column) : V::zero();
      (args.add ? old + sums[v] : sums[v]).store(y + column);
    } else {
      float lanes[V::kLanes];
      sums[v].store(lanes);
      for (int i = 0; column + i < args.columns; ++i) {
        y[column + i] = args.add ? y[column + i] + lanes[i] : lanes[i];
      }
    }
  }
}

// PREFETCH: bytes ahead in the panel, for weights that come from memory; 0: none. Reading past the end of a
// panel is the next panel's start, and past the last one a prefetch is harmless.
template <typename V, typename Panel, int ROWS, int PREFETCH>
inline void compute_tile(const TileArgs& args) {
  constexpr int kAtOnce = TileShape<V>::groups_at_once(ROWS);
  const char* const panel = static_cast<const char*>(args.panel);
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
    const float* x = args.x;
    const int64_t stride = args.x_stride;
    for (int64_t k = 0; k < args.k; ++k) {
      if constexpr (PREFETCH > 0) {
        PENSTOCK_UNROLL
        for (int line = 0; line < Panel::kRowBytes; line += 64) {
          __builtin_prefetch(panel + k * Panel::kRowBytes + PREFETCH + line);
        }
      }
      V w[2 * kAtOnce];
      PENSTOCK_UNROLL
      for (int g = 0; g < kAtOnce; ++g) Panel::load(args.panel, k, first + g, w[2 * g], w[2 * g + 1]);
      PENSTOCK_UNROLL
      for (int r = 0; r < ROWS; ++r) {
        const V a = V::set(x[r * stride + k]);
        PENSTOCK_UNROLL
        for (int v = 0; v < 2 * kAtOnce; ++v) sums[r][v] = V::fma(a, w[v], sums[r][v]);
      }
    }
    PENSTOCK_UNROLL
    for (int r = 0; r < ROWS; ++r) store_tile_row<V, kAtOnce>(args, r, first, sums[r]);
  }
}

// compute_tile for 1..kRowsMax rows, chosen at run time.
template <typename V, typename Panel, int PREFETCH>
inline void compute_rows(int rows, const TileArgs& args) {
  switch (rows) {
    // clang-format off
    case 1: return compute_tile<V, Panel, 1, PREFETCH>(args);
    case 2: return compute_tile<V, Panel, 2, PREFETCH>(args);
    case 3: return compute_tile<V, Panel, 3, PREFETCH>(args);
    case 4: return compute_tile<V, Panel, 4, PREFETCH>(args);
    case 5: return compute_tile<V, Panel, 5, PREFETCH>(args);
    case 6: return compute_tile<V, Panel, 6, PREFETCH>(args);
    default: break;
      // clang-format on
  }
  if constexpr (TileShape<V>::kRowsMax == 14) {
    switch (rows) {
      // clang-format off
      case 7: return compute_tile<V, Panel, 7, PREFETCH>(args);
      case 8: return compute_tile<V, Panel, 8, PREFETCH>(args);
      case 9: return compute_tile<V, Panel, 9, PREFETCH>(args);
      case 10: return compute_tile<V, Panel, 10, PREFETCH>(args);
      case 11: return compute_tile<V, Panel, 11, PREFETCH>(args);
      case 12: return compute_tile<V, Panel, 12, PREFETCH>(args);
      case 13: return compute_tile<V, Panel, 13, PREFETCH>(args);
      case 14: return compute_tile<V, Panel, 14, PREFETCH>(args);
      default: break;
        // clang-format on
    }
  }
}

// Any number of rows, in tiles of nearly equal height. Rows of args.init follow those of x.
template <typename V, typename Panel, int PREFETCH>
inline void compute_panel(int64_t rows, TileArgs args) {
  const int64_t tiles = (rows + TileShape<V>::kRowsMax - 1) / TileShape<V>::kRowsMax;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int height = static_cast<int>(rows / tiles + (tile < rows % tiles ? 1 : 0));
    compute_rows<V, Panel, PREFETCH>(height, args);
    args.x += height * args.x_stride;
    args.y += height * args.y_stride;
    if (args.init != nullptr) args.init += height * 32;
  }
}

}  // namespace penstock
