#include "kernels/rmsnorm.h"

#include "kernels/cuda_plugin.h"
#include "kernels/row_ops_cpu.h"
#include "kernels/row_parallel_cpu.h"

namespace penstock {

void rmsnorm(Stream& stream, Matrix<const float> x, WeightVector weight, float eps, Matrix<float> y) {
  CHECK_EQ(x.rows, y.rows);
  CHECK_EQ(x.cols, y.cols);
  CHECK_EQ(x.cols, weight.size);
  CHECK(weight.dtype == DType::kF32 || weight.dtype == DType::kBf16);
  const bool is_bf16 = weight.dtype == DType::kBf16;
  if (stream.kind() == DeviceKind::kCuda) {
    stream.note_failure("rmsnorm", stream.cuda().rmsnorm(x.data, x.stride, weight.data, is_bf16, eps, x.rows,
                                                         x.cols, y.data, y.stride, stream.cuda_handle()));
    return;
  }
  const RowOps& ops = row_ops(stream.isa());
  for_each_row(stream, x.rows, x.cols, 32768, [&](int64_t row) {
    if (is_bf16) {
      ops.rmsnorm_bf16(x.row(row), static_cast<const Bf16*>(weight.data), eps, x.cols, y.row(row));
    } else {
      ops.rmsnorm_f32(x.row(row), static_cast<const float*>(weight.data), eps, x.cols, y.row(row));
    }
  });
}

}  // namespace penstock
