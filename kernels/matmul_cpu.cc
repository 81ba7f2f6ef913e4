#include "kernels/matmul_cpu.h"

#include <algorithm>

#include "base/check.h"

namespace penstock {
namespace {

// How a product is cut into chunks: blocks of rows, each split into runs of panels. Small enough that a slow
// helper's last chunk does not stall the others, large enough to hide the claim.
struct Split {
  int64_t row_blocks, rows;  // per block
  int64_t runs, panels;      // per run
};

Split split_work(int64_t rows, int64_t panels, int64_t panel_bytes, int64_t k, int threads) {
  // A block's activations should stay in a level-2 cache while panels pass by.
  constexpr int64_t kRowsMax = 256;
  constexpr double kChunkNs = 15'000, kBytesPerNs = 25, kFlopsPerNs = 150;
  const int64_t row_blocks = (rows + kRowsMax - 1) / kRowsMax;
  const int64_t block_rows = (rows + row_blocks - 1) / row_blocks;
  if (threads == 1) return {row_blocks, block_rows, 1, panels};
  const double flops = 2.0 * static_cast<double>(block_rows * k * kPanelColumns);
  const double ns = std::max(static_cast<double>(panel_bytes) / kBytesPerNs, flops / kFlopsPerNs);
  const int64_t wanted = static_cast<int64_t>(kChunkNs / ns);
  const int64_t run = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, panels / (8 * threads)));
  return {row_blocks, block_rows, (panels + run - 1) / run, run};
}

// Calls fn(first_row, rows, first_panel, panels) for each chunk, on the pool's threads.
template <typename F>
void for_each_chunk(ThreadPool& threads, const Split& split, int64_t rows, int64_t panels, F&& fn) {
  threads.parallel_for(split.row_blocks * split.runs, [&](int64_t chunk) {
    const int64_t row = chunk / split.runs * split.rows, panel = chunk % split.runs * split.panels;
    fn(row, std::min(split.rows, rows - row), panel, std::min(split.panels, panels - panel));
  });
}

PanelFn panel_fn(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return matmul_panels_portable;
    case Isa::kAvx2:
      return matmul_panels_avx2;
    case Isa::kAvx512:
    case Isa::kAvx512Bf16:
    case Isa::kAmxBf16:  // f32 weights
      return matmul_panels_avx512;
  }
  return matmul_panels_portable;
}

void check_shapes(Matrix<const float> x, const PackedMatrix& weights, Matrix<float> y) {
  CHECK_EQ(x.cols, weights.k());
  CHECK_EQ(y.cols, weights.n());
  CHECK_EQ(x.rows, y.rows);
}

}  // namespace

void matmul_cpu(ThreadPool& threads, Isa isa, Matrix<const float> x, const PackedMatrix& weights,
                Matrix<float> y, Accumulate accumulate) {
  if (weights.layout() == PanelLayout::kBf16Tiles) {
    CHECK(isa == Isa::kAmxBf16);
    return matmul_amx(threads, amx_kernels(), x, weights, y, accumulate);
  }
  check_shapes(x, weights, y);
  if (x.rows == 0) return;
  const PanelFn fn = panel_fn(isa);
  const Split split = split_work(x.rows, weights.panels(), weights.panel_bytes(), x.cols, threads.threads());
  const auto chunk = [&](int64_t row, int64_t rows, int64_t panel, int64_t panels) {
    fn({.x = x.row(row),
        .x_stride = x.stride,
        .rows = rows,
        .k = x.cols,
        .weights = static_cast<const char*>(weights.data()) + panel * weights.panel_bytes(),
        .weights_bf16 = weights.layout() == PanelLayout::kBf16,
        .panels = panels,
        .columns = std::min(y.cols - panel * kPanelColumns, panels * kPanelColumns),
        .y = y.row(row) + panel * kPanelColumns,
        .y_stride = y.stride,
        .add = accumulate == Accumulate::kAdd,
        // Threads of equal speed take turns.
        .skip_bytes = (threads.threads() - 1) * split.panels * weights.panel_bytes()});
  };
  for_each_chunk(threads, split, x.rows, weights.panels(), chunk);
}

void matmul_amx(ThreadPool& threads, const AmxKernels& kernels, Matrix<const float> x,
                const PackedMatrix& weights, Matrix<float> y, Accumulate accumulate) {
  CHECK(weights.layout() == PanelLayout::kBf16Tiles);
  check_shapes(x, weights, y);
  if (x.rows == 0) return;
  const int64_t padded_k = round_up(x.cols, kTileK), padded_rows = round_up(x.rows, kTileRows);
  const std::span<std::byte> scratch = threads.scratch(padded_rows * padded_k * 2);
  auto* rounded = reinterpret_cast<uint16_t*>(scratch.data());
  constexpr int64_t kRowsAtOnce = 8;
  threads.parallel_for((padded_rows + kRowsAtOnce - 1) / kRowsAtOnce, [&](int64_t chunk) {
    const int64_t row = chunk * kRowsAtOnce;
    const int64_t count = std::clamp<int64_t>(x.rows - row, 0, kRowsAtOnce);
    uint16_t* out = rounded + row * padded_k;
    if (count > 0) kernels.round_rows(x.row(row), x.stride, count, x.cols, padded_k, out);
    std::fill(out + count * padded_k, out + kRowsAtOnce * padded_k, uint16_t{0});
  });

  Split split = split_work(x.rows, weights.panels(), weights.panel_bytes(), x.cols, threads.threads());
  split.rows = round_up(split.rows, kTileRows);
  split.row_blocks = (x.rows + split.rows - 1) / split.rows;
  const auto chunk = [&](int64_t row, int64_t rows, int64_t panel, int64_t panels) {
    kernels.panels({.x = rounded + row * padded_k,
                    .rows = rows,
                    .padded_k = padded_k,
                    .weights = static_cast<const char*>(weights.data()) + panel * weights.panel_bytes(),
                    .panels = panels,
                    .columns = std::min(y.cols - panel * kPanelColumns, panels * kPanelColumns),
                    .y = y.row(row) + panel * kPanelColumns,
                    .y_stride = y.stride,
                    .add = accumulate == Accumulate::kAdd});
  };
  for_each_chunk(threads, split, x.rows, weights.panels(), chunk);
}

}  // namespace penstock
