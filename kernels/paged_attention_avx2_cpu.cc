#include "kernels/attention_tiles.h"
#include "kernels/simd_avx2.h"

namespace penstock {

void attention_tile_avx2(const AttentionTask& task) { AttentionTile<Simd8>::run(task); }

}  // namespace penstock
