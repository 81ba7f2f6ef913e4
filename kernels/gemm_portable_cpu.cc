#include "kernels/gemm_tiles.h"

namespace penstock {

GemmKernels gemm_kernels_portable() { return GemmTiles<Simd4>::kernels(); }

}  // namespace penstock
