#include "kernels/rope.h"

#include "kernels/row_ops_cpu.h"
#include "kernels/row_parallel_cpu.h"

namespace penstock {

void rope(Stream& stream, Matrix<float> x, int64_t heads, const RopeTable& table, const int32_t* positions) {
  require_cpu(stream, "rope");
  const int64_t head_dim = table.head_dim();
  CHECK_LE(heads * head_dim, x.cols);
  const RowOps& ops = row_ops(stream.isa());
  for_each_row(stream, x.rows, heads * head_dim, 32768, [&](int64_t row) {
    const int64_t position = positions[row];
    CHECK_GE(position, 0);
    CHECK_LT(position, table.positions_max());
    const float* cosines = table.data() + position * head_dim;
    for (int64_t head = 0; head < heads; ++head)
      ops.rope_head(x.row(row) + head * head_dim, cosines, head_dim / 2);
  });
}

}  // namespace penstock
