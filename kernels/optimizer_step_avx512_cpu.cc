#include "kernels/optimizer_loops.h"

namespace penstock {

OptimizerLoops optimizer_loops_avx512() { return kOptimizerLoops; }

}  // namespace penstock
