#include "kernels/optimizer_loops.h"

namespace penstock {

OptimizerLoops optimizer_loops_portable() { return kOptimizerLoops; }

}  // namespace penstock
