// Instruction-set levels of the CPU kernels, detected at run time.
//
// Pure functions of the machine, its operating system and PENSTOCK_ISA; any thread.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace penstock {

// Each level includes those before it. kAvx512Bf16 multiplies as kAvx512 does: vdpbf16ps was measured at half
// the speed of f32 FMA, so the level only tells machines apart. kAmxBf16 rounds activations to bf16.
enum class Isa : int { kPortable, kAvx2, kAvx512, kAvx512Bf16, kAmxBf16 };

std::string_view isa_name(Isa isa);  // "portable", "avx2", "avx512", "avx512bf16", "amxbf16"
std::optional<Isa> parse_isa(std::string_view name);

// What this machine and its operating system can run, narrowest first; kPortable is always there. The first
// call asks the kernel for permission to use AMX tiles, where the CPU has them.
const std::vector<Isa>& available_isas();

// `forced` if given, else PENSTOCK_ISA if set, else the widest. kInvalidArgument for a name that does not
// exist, kUnsupported for a level that this machine lacks.
Result<Isa> choose_isa(std::optional<Isa> forced);

}  // namespace penstock
