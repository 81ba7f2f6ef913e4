#include "kernels/row_ops_simd.h"
#include "kernels/simd_avx2.h"

namespace penstock {

constexpr RowOps kRowOpsAvx2 = RowOpsSimd<Simd8>::table();

}  // namespace penstock
