// What tells one model from another of the same name and shape: a digest of everything that decides its
// logits.
//
// A pure function of the folder and the dtype; how tensors are spread over files plays no part.
#pragma once

#include <cstdint>

#include "kernels/dtype.h"
#include "kernels/thread_pool.h"
#include "model/checkpoint.h"
#include "model/config.h"

namespace penstock {

// XXH3 over the config's constants, `dtype` (of the weights in memory) and every tensor, read once by
// `threads`. Never 0.
[[nodiscard]] uint64_t weights_digest(const Checkpoint& checkpoint, const ModelConfig& config, DType dtype,
                                      ThreadPool& threads);

}  // namespace penstock
