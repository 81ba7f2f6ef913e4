// Fibers: stacks that are switched by hand, for the emulator alone. x86-64, System V calling convention.
//
// A fiber keeps its stack and the callee-saved registers on it; a switch costs about 10 ns. Fibers are never
// destroyed: their stacks are reused or freed as memory, so what runs on one must own nothing.
#pragma once

#include <cstddef>

namespace penstock::emulator {

inline constexpr size_t kFiberStackBytes = 64 << 10;

// Prepares a stack so that the first switch to the returned pointer calls entry(), which must not return.
void* prepare_fiber(void* stack, size_t stack_bytes, void (*entry)());

// Saves the running context through *save and goes on with `load`.
extern "C" void penstock_switch_fiber(void** save, void* load);

}  // namespace penstock::emulator
