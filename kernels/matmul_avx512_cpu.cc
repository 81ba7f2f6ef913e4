#include "kernels/matmul_panels.h"
#include "kernels/simd_avx512.h"

namespace penstock {

void matmul_panels_avx512(const PanelTask& task) { MatmulPanels<Simd16>::run(task); }

}  // namespace penstock
