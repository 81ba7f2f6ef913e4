#include "kernels/attention_tiles.h"
#include "kernels/simd_avx512.h"

namespace penstock {

void attention_tile_avx512(const AttentionTask& task) { AttentionTile<Simd16>::run(task); }

}  // namespace penstock
