#include "kernels/matmul_panels.h"
#include "kernels/simd_avx2.h"

namespace penstock {

void matmul_panels_avx2(const PanelTask& task) { MatmulPanels<Simd8>::run(task); }

}  // namespace penstock
