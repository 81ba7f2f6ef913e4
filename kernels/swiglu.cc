#include "kernels/swiglu.h"

#include "kernels/cuda_plugin.h"
#include "kernels/row_ops_cpu.h"
#include "kernels/row_parallel_cpu.h"

namespace penstock {

void swiglu(Stream& stream, Matrix<const float> gate_up, Matrix<float> y) {
  CHECK_EQ(gate_up.rows, y.rows);
  CHECK_EQ(gate_up.cols, 2 * y.cols);
  const int64_t ffn = y.cols;
  if (stream.kind() == DeviceKind::kCuda) {
    stream.note_failure("swiglu", stream.cuda().swiglu(gate_up.data, gate_up.stride, y.rows, ffn, y.data,
                                                       y.stride, stream.cuda_handle()));
    return;
  }
  const RowOps& ops = row_ops(stream.isa());
  for_each_row(stream, y.rows, ffn, 4096,
               [&](int64_t row) { ops.swiglu(gate_up.row(row), gate_up.row(row) + ffn, ffn, y.row(row)); });
}

}  // namespace penstock
