#include "kernels/gemm_tiles.h"
#include "kernels/simd_avx512.h"

namespace penstock {

GemmKernels gemm_kernels_avx512() { return GemmTiles<Simd16>::kernels(); }

}  // namespace penstock
