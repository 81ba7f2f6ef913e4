#include "kernels/matmul.h"

#include "base/check.h"
#include "kernels/matmul_cpu.h"

namespace penstock {
namespace {

PanelLayout layout_for(DType dtype, Isa isa) {
  if (dtype == DType::kF32) return PanelLayout::kF32;
  return isa == Isa::kAmxBf16 ? PanelLayout::kBf16Tiles : PanelLayout::kBf16;
}

int64_t bytes_of_panel(int64_t k, PanelLayout layout) {
  switch (layout) {
    case PanelLayout::kF32:
      return kPanelColumns * k * 4;
    case PanelLayout::kBf16:
      return kPanelColumns * k * 2;
    case PanelLayout::kBf16Tiles:
      return kPanelColumns * round_up(k, kTileK) * 2;
  }
  return 0;
}

// Index within a panel, in elements of the panel's dtype.
int64_t element_index(PanelLayout layout, int64_t column, int64_t k) {
  switch (layout) {
    case PanelLayout::kF32:
      return k * kPanelColumns + column;
    case PanelLayout::kBf16:
      return (k * 16 + column % 16) * 2 + column / 16;
    case PanelLayout::kBf16Tiles: {
      const int64_t tile = k / kTileK * 2 + column / 16;
      return (tile * kTileRows + k % kTileK / 2) * kTileK + column % 16 * 2 + k % 2;
    }
  }
  return 0;
}

template <typename To, typename From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<To, float>) {
    return to_float(value);
  } else {
    return to_bf16(to_float(value));
  }
}

// source == nullptr packs a row of zeros. k_end: k rounded up to whole tiles, zeros from k on.
template <typename To, typename From>
void pack_row(To* panel, PanelLayout layout, int64_t column, const From* source, int64_t k, int64_t k_end) {
  for (int64_t i = 0; i < k_end; ++i) {
    const bool real = source != nullptr && i < k;
    panel[element_index(layout, column, i)] = real ? convert<To>(source[i]) : To{};
  }
}

template <typename To, typename From>
void pack(char* data, int64_t panel_bytes, PanelLayout layout, int64_t n, int64_t first_row,
          const WeightMatrix& source) {
  const int64_t k = source.cols;
  const int64_t k_end = layout == PanelLayout::kBf16Tiles ? round_up(k, kTileK) : k;
  const auto pack_one = [&](int64_t row, const From* values) {
    To* panel = reinterpret_cast<To*>(data + row / kPanelColumns * panel_bytes);
    pack_row<To, From>(panel, layout, row % kPanelColumns, values, k, k_end);
  };
  for (int64_t r = 0; r < source.rows; ++r) {
    pack_one(first_row + r, static_cast<const From*>(source.data) + r * source.stride);
  }
  if (first_row + source.rows != n) return;
  for (int64_t row = n; row % kPanelColumns != 0; ++row) pack_one(row, nullptr);
}

template <typename To>
void pack_from(char* data, int64_t panel_bytes, PanelLayout layout, int64_t n, int64_t first_row,
               const WeightMatrix& source) {
  switch (source.dtype) {
    case DType::kF32:
      return pack<To, float>(data, panel_bytes, layout, n, first_row, source);
    case DType::kBf16:
      return pack<To, Bf16>(data, panel_bytes, layout, n, first_row, source);
    case DType::kF16:
      return pack<To, F16>(data, panel_bytes, layout, n, first_row, source);
    case DType::kI32:
      break;
  }
  CHECK(source.dtype != DType::kI32);
}

}  // namespace

PackedMatrix::PackedMatrix(void* data, int64_t n, int64_t k, DType dtype, Isa isa)
    : data_(data), n_(n), k_(k), dtype_(dtype), layout_(layout_for(dtype, isa)) {
  CHECK(dtype == DType::kF32 || dtype == DType::kBf16);
  CHECK(n > 0 && k > 0);
  CHECK_EQ(reinterpret_cast<uintptr_t>(data) % 64, uintptr_t{0});
}

int64_t PackedMatrix::packed_bytes(int64_t n, int64_t k, DType dtype, Isa isa) {
  return (n + kPanelColumns - 1) / kPanelColumns * bytes_of_panel(k, layout_for(dtype, isa));
}

int64_t PackedMatrix::panel_bytes() const { return bytes_of_panel(k_, layout_); }

void PackedMatrix::pack_rows(int64_t first_row, const WeightMatrix& source) {
  CHECK_EQ(source.cols, k_);
  CHECK(first_row >= 0 && first_row + source.rows <= n_);
  char* data = static_cast<char*>(data_);
  if (dtype_ == DType::kF32) return pack_from<float>(data, panel_bytes(), layout_, n_, first_row, source);
  pack_from<Bf16>(data, panel_bytes(), layout_, n_, first_row, source);
}

void matmul(Stream& stream, Matrix<const float> x, const PackedMatrix& weights, Matrix<float> y,
            Accumulate accumulate) {
  CHECK(stream.kind() == DeviceKind::kCpu);  // a CUDA device offers no matmul yet: model load says so
  matmul_cpu(stream.threads(), stream.isa(), x, weights, y, accumulate);
}

}  // namespace penstock
