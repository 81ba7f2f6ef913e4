#include "kernels/emulator/fiber.h"

#include <cstdint>
#include <cstring>

// The floating-point control words are left alone: nobody here changes them.
asm(R"(
  .text
  .p2align 4
  .globl penstock_switch_fiber
  .hidden penstock_switch_fiber
  .type penstock_switch_fiber, @function
penstock_switch_fiber:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size penstock_switch_fiber, .-penstock_switch_fiber
)");

namespace penstock::emulator {

void* prepare_fiber(void* stack, size_t stack_bytes, void (*entry)()) {
  // From the top: no return address, then what `ret` jumps to, then six registers. After `ret` the stack
  // pointer is 8 below a multiple of 16, as a called function expects.
  auto top = reinterpret_cast<uintptr_t>(stack) + stack_bytes;
  top &= ~uintptr_t{15};
  auto* words = reinterpret_cast<void**>(top) - 8;
  std::memset(words, 0, 8 * sizeof(void*));
  words[6] = reinterpret_cast<void*>(entry);
  return words;
}

}  // namespace penstock::emulator
