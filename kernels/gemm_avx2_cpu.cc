#include "kernels/gemm_tiles.h"
#include "kernels/simd_avx2.h"

namespace penstock {

GemmKernels gemm_kernels_avx2() { return GemmTiles<Simd8>::kernels(); }

}  // namespace penstock
