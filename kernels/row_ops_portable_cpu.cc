#include "kernels/row_ops_simd.h"
#include "kernels/simd_portable.h"

namespace penstock {

constexpr RowOps kRowOpsPortable = RowOpsSimd<Simd4>::table();

const RowOps& row_ops(Isa isa) {
  if (isa >= Isa::kAvx512) return kRowOpsAvx512;
  return isa == Isa::kAvx2 ? kRowOpsAvx2 : kRowOpsPortable;
}

}  // namespace penstock
