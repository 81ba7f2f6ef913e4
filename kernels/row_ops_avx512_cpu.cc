#include "kernels/row_ops_simd.h"
#include "kernels/simd_avx512.h"

namespace penstock {

constexpr RowOps kRowOpsAvx512 = RowOpsSimd<Simd16>::table();

}  // namespace penstock
