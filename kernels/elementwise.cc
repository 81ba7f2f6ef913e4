#include "kernels/elementwise.h"

#include "kernels/row_ops_cpu.h"
#include "kernels/row_parallel_cpu.h"

namespace penstock {

void add(Stream& stream, Matrix<const float> x, Matrix<float> y) {
  require_cpu(stream, "add");
  CHECK_EQ(x.rows, y.rows);
  CHECK_EQ(x.cols, y.cols);
  const RowOps& ops = row_ops(stream.isa());
  for_each_row(stream, y.rows, y.cols, 32768, [&](int64_t row) { ops.add(x.row(row), y.cols, y.row(row)); });
}

}  // namespace penstock
