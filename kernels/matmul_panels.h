// How matmul.cc hands a chunk of work, some panels times some rows, to the code of one instruction set; and
// that code as a template over the vector type.
#pragma once

#include <cstdint>

#include "kernels/register_tile.h"

namespace penstock {

struct PanelTask {
  const float* x;  // [rows, k]
  int64_t x_stride;
  int64_t rows;
  int64_t k;
  const void* weights;  // first panel
  bool weights_bf16;
  int64_t panels;
  int64_t columns;  // of y from the first panel on: at most 32 * panels
  float* y;         // at the first panel's first column
  int64_t y_stride;
  bool add;
  int64_t skip_bytes;  // from the end of these panels to those that this thread will probably take next
};

using PanelFn = void (*)(const PanelTask&);
void matmul_panels_portable(const PanelTask& task);
void matmul_panels_avx2(const PanelTask& task);
void matmul_panels_avx512(const PanelTask& task);

// The largest block of K that is widened from bf16 to f32 at once: 96 KB, well inside a level-2 cache.
inline constexpr int64_t kWidenedK = 768;
inline constexpr int64_t kPartialRows = 256;

// Few rows: straight from the packed weights. Many rows: widening a bf16 panel once is cheaper than widening
// it in every tile. Either way the next panel is on its way from memory while this one is computed.
template <typename V>
struct MatmulPanels {
  static constexpr int64_t kDirectRowsMax = 5 * TileShape<V>::kRowsMax;

  static void run(const PanelTask& task) {
    const bool widen = task.weights_bf16 && task.rows > kDirectRowsMax;
    const int64_t panel_bytes = task.k * 32 * (task.weights_bf16 ? 2 : 4);
    for (int64_t p = 0; p < task.panels; ++p) {
      const int64_t left = task.columns - p * 32;
      const char* const panel = static_cast<const char*>(task.weights) + p * panel_bytes;
      const TileArgs args{.x = task.x,
                          .x_stride = task.x_stride,
                          .panel = panel,
                          .k = task.k,
                          .init = nullptr,
                          .y = task.y + p * 32,
                          .y_stride = task.y_stride,
                          .columns = left < 32 ? left : 32,
                          .add = task.add,
                          .prefetch = panel + panel_bytes + (p + 1 < task.panels ? 0 : task.skip_bytes),
                          .prefetch_step = 0};
      if (widen) {
        widened(task.rows, args);
      } else if (task.weights_bf16) {
        compute_panel<V, Bf16Panel>(task.rows, args, panel_bytes);
      } else {
        compute_panel<V, F32Panel>(task.rows, args, panel_bytes);
      }
    }
  }

 private:
  // Partial sums of a block of K go through memory and back, which does not change them.
  static void widened(int64_t rows, const TileArgs& whole) {
    alignas(64) float panel[kWidenedK * 32];
    alignas(64) float partial[kPartialRows * 32];
    const int64_t rows_at_once = whole.k <= kWidenedK ? rows : kPartialRows;
    for (int64_t row = 0; row < rows; row += rows_at_once) {
      const int64_t count = rows - row < rows_at_once ? rows - row : rows_at_once;
      for (int64_t k = 0; k < whole.k; k += kWidenedK) {
        TileArgs args = whole;
        args.k = whole.k - k < kWidenedK ? whole.k - k : kWidenedK;
        widen(whole.panel, k, args.k, panel);
        args.panel = panel;
        args.x = whole.x + row * whole.x_stride + k;
        args.init = k == 0 ? nullptr : partial;
        args.y = whole.y + row * whole.y_stride;
        args.prefetch = whole.prefetch + k * 64;
        if (k + args.k < whole.k) {
          args.y = partial;
          args.y_stride = 32;
          args.columns = 32;
          args.add = false;
        }
        compute_panel<V, F32Panel>(count, args, args.k * 64);
      }
    }
  }

  static void widen(const void* panel, int64_t first_k, int64_t count, float* out) {
    for (int64_t k = 0; k < count; ++k) {
      for (int g = 0; g < TileShape<V>::kGroups; ++g) {
        V low, high;
        Bf16Panel::load(panel, first_k + k, g, low, high);
        low.store(out + k * 32 + g * V::kLanes);
        high.store(out + k * 32 + 16 + g * V::kLanes);
      }
    }
  }
};

}  // namespace penstock
