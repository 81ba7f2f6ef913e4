// The arithmetic of reductions: pure.
#pragma once

#include <cstddef>
#include <span>

#include "fabric/communicator.h"

namespace penstock {

// output[i] = ((inputs[0][i] + inputs[1][i]) + inputs[2][i]) ..., or the maximum (NaN wins). `output` may be
// one of the inputs. bf16 is summed in f32 and rounded once; integers wrap.
void reduce_in_order(std::span<const std::byte* const> inputs, std::byte* output, int64_t count,
                     ElementType type, Reduction reduction);

}  // namespace penstock
