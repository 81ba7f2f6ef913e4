#include "kernels/attention_tiles.h"
#include "kernels/simd_portable.h"

namespace penstock {

void attention_tile_portable(const AttentionTask& task) { AttentionTile<Simd4>::run(task); }

}  // namespace penstock
