// The AMX form of matmul: packed weight tiles times activations rounded to bf16, f32 sums.
//
// A template over the tile instructions: AmxTiles (matmul_amx_cpu.cc) issues them, TileStandIn does the same
// in plain C++, so that packing and tiling are tested on machines without AMX.
#pragma once

#include <cstdint>

#include "kernels/dtype.h"

namespace penstock {

inline constexpr int64_t kTileRows = 16;  // rows of an A or C tile; pairs of k of a B tile
inline constexpr int64_t kTileK = 32;     // bf16 values of k in a tile's row
inline constexpr int64_t kTileBytes = 1024;

constexpr int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// Rows of x rounded to bf16 and padded with zeros to whole tiles: [round_up(rows, 16)][round_up(k, 32)].
struct AmxTask {
  const uint16_t* x;
  int64_t rows;  // of y
  int64_t padded_k;
  const char* weights;  // first panel, PanelLayout::kBf16Tiles
  int64_t panels;
  int64_t columns;
  float* y;
  int64_t y_stride;
  bool add;
};

// The two forms of the op: what rounds rows [first, first + count) of x, and what computes panels.
struct AmxKernels {
  void (*round_rows)(const float* x, int64_t x_stride, int64_t rows, int64_t k, int64_t padded_k,
                     uint16_t* out);
  void (*panels)(const AmxTask& task);
};
AmxKernels amx_kernels();           // for machines that have Isa::kAmxBf16
AmxKernels amx_stand_in_kernels();  // for all

// C += A B for one tile each; bf16 products are exact in f32 and summed in rising k.
class TileStandIn {
 public:
  template <int T>
  void zero() {
    for (float& value : c_[T].value) value = 0;
  }
  template <int T>
  void load(const void* from, int64_t stride_bytes) {
    for (int row = 0; row < kTileRows; ++row) {
      const auto* source =
          reinterpret_cast<const uint16_t*>(static_cast<const char*>(from) + row * stride_bytes);
      for (int i = 0; i < kTileK; ++i) ab_[T].value[row * kTileK + i] = source[i];
    }
  }
  template <int T>
  void store(float* to, int64_t stride_bytes) const {
    for (int row = 0; row < kTileRows; ++row) {
      auto* target = reinterpret_cast<float*>(reinterpret_cast<char*>(to) + row * stride_bytes);
      for (int i = 0; i < kTileRows; ++i) target[i] = c_[T].value[row * kTileRows + i];
    }
  }
  template <int C, int A, int B>
  void multiply() {
    for (int row = 0; row < kTileRows; ++row) {
      for (int column = 0; column < kTileRows; ++column) {
        float sum = c_[C].value[row * kTileRows + column];
        for (int k = 0; k < kTileK; ++k) {
          const Bf16 a{ab_[A].value[row * kTileK + k]};
          const Bf16 b{ab_[B].value[(k / 2) * kTileK + column * 2 + k % 2]};
          sum += to_float(a) * to_float(b);
        }
        c_[C].value[row * kTileRows + column] = sum;
      }
    }
  }

 private:
  struct {
    float value[kTileRows * kTileRows];
  } c_[4];
  struct {
    uint16_t value[kTileRows * kTileK];
  } ab_[8];
};

// Adds or copies the valid part of a [rows, columns] block of sums, 32 floats a row, to y.
inline void store_amx_block(const float* block, int64_t rows, int64_t columns, float* y, int64_t y_stride,
                            bool add) {
  const auto store_row = [add](const float* sums, int64_t count, float* out) {
    for (int64_t c = 0; c < count; ++c) out[c] = add ? out[c] + sums[c] : sums[c];
  };
  for (int64_t r = 0; r < rows; ++r) {
    if (columns == 32) {
      store_row(block + r * 32, 32, y + r * y_stride);  // a constant count, or each row is a call of memcpy
    } else {
      store_row(block + r * 32, columns, y + r * y_stride);
    }
  }
}

// Fetches weights ahead of their use: evenly over the steps of a panel, as a burst of fetches
// holds up the loads behind it. With one block of rows from this panel on, with more from the next.
class AmxPrefetch {
 public:
  AmxPrefetch(const char* panel, int64_t panel_bytes, int64_t row_blocks)
      : at_(panel + (row_blocks == 1 ? kAhead : panel_bytes)),
        lines_((kStepBytes / kLineBytes + row_blocks - 1) / row_blocks) {}
  void step() {
    for (int64_t line = 0; line < lines_; ++line, at_ += kLineBytes) __builtin_prefetch(at_);
  }

 private:
  static constexpr int64_t kAhead = 12 * 1024, kStepBytes = 2 * kTileBytes, kLineBytes = 64;
  const char* at_;
  const int64_t lines_;
};

// One panel: 32 rows at a time, four tiles of sums. Tiles 0-3 are C, 4-5 A, 6-7 B. Every row sees the same
// tiles in the same order, alone or among others.
template <typename Tiles>
void amx_panel(Tiles& tiles, const AmxTask& task, const char* panel, float* y, int64_t columns) {
  constexpr int64_t kBlockRows = 2 * kTileRows;
  alignas(64) float block[kBlockRows * 32];
  const int64_t x_bytes = task.padded_k * 2;
  AmxPrefetch prefetch(panel, task.padded_k * 64, (task.rows + kBlockRows - 1) / kBlockRows);
  for (int64_t row = 0; row < task.rows; row += kBlockRows) {
    const bool two = task.rows - row > kTileRows;
    const char* a = reinterpret_cast<const char*>(task.x + row * task.padded_k);
    tiles.template zero<0>();
    tiles.template zero<1>();
    tiles.template zero<2>();
    tiles.template zero<3>();
    for (int64_t k = 0; k < task.padded_k; k += kTileK, a += kTileK * 2) {
      const char* b = panel + k / kTileK * 2 * kTileBytes;
      prefetch.step();
      const int64_t sums_row = row + k / kTileK;  // the first steps fetch one row of y each, to be written
      if (sums_row < task.rows && sums_row < row + kBlockRows) {
        __builtin_prefetch(y + sums_row * task.y_stride, 1);
        __builtin_prefetch(y + sums_row * task.y_stride + 16, 1);
      }
      tiles.template load<4>(a, x_bytes);
      tiles.template load<6>(b, 64);
      tiles.template load<7>(b + kTileBytes, 64);
      tiles.template multiply<0, 4, 6>();
      tiles.template multiply<1, 4, 7>();
      if (!two) continue;
      tiles.template load<5>(a + kTileRows * x_bytes, x_bytes);
      tiles.template multiply<2, 5, 6>();
      tiles.template multiply<3, 5, 7>();
    }
    tiles.template store<0>(block, 128);
    tiles.template store<1>(block + 16, 128);
    if (two) {
      tiles.template store<2>(block + kTileRows * 32, 128);
      tiles.template store<3>(block + kTileRows * 32 + 16, 128);
    }
    const int64_t rows = task.rows - row < kBlockRows ? task.rows - row : kBlockRows;
    store_amx_block(block, rows, columns, y + row * task.y_stride, task.y_stride, task.add);
  }
}

template <typename Tiles>
void amx_panels(Tiles& tiles, const AmxTask& task) {
  const int64_t panel_bytes = task.padded_k * 32 * 2;
  for (int64_t p = 0; p < task.panels; ++p) {
    const int64_t left = task.columns - p * 32;
    amx_panel(tiles, task, task.weights + p * panel_bytes, task.y + p * 32, left < 32 ? left : 32);
  }
}

}  // namespace penstock
