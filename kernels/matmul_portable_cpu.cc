#include "kernels/matmul_panels.h"
#include "kernels/simd_portable.h"

namespace penstock {

void matmul_panels_portable(const PanelTask& task) { MatmulPanels<Simd4>::run(task); }

}  // namespace penstock
