#include "kernels/embedding.h"

#include <cstring>

#include "kernels/row_ops_cpu.h"
#include "kernels/row_parallel_cpu.h"

namespace penstock {

void embedding(Stream& stream, WeightMatrix table, const TokenId* ids, Matrix<float> y) {
  require_cpu(stream, "embedding");
  CHECK_EQ(table.cols, y.cols);
  CHECK(table.dtype == DType::kF32 || table.dtype == DType::kBf16);
  const RowOps& ops = row_ops(stream.isa());
  for_each_row(stream, y.rows, y.cols, 32768, [&](int64_t row) {
    const int64_t id = ids[row];
    CHECK_GE(id, 0);
    CHECK_LT(id, table.rows);
    if (table.dtype == DType::kBf16) {
      ops.widen(static_cast<const Bf16*>(table.data) + id * table.stride, y.cols, y.row(row));
    } else {
      std::memcpy(y.row(row), static_cast<const float*>(table.data) + id * table.stride,
                  static_cast<size_t>(y.cols) * sizeof(float));
    }
  });
}

}  // namespace penstock
