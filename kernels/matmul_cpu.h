// The CPU side of matmul below the dispatch: which code computes a packed matrix, and the split over threads.
// For matmul.cc and the tests of its parts.
#pragma once

#include "kernels/matmul.h"
#include "kernels/matmul_amx.h"
#include "kernels/matmul_panels.h"
#include "kernels/thread_pool.h"

namespace penstock {

// isa: at most what the machine has; the weights' layout must suit it (PackedMatrix of the same isa).
void matmul_cpu(ThreadPool& threads, Isa isa, Matrix<const float> x, const PackedMatrix& weights,
                Matrix<float> y, Accumulate accumulate);

// The same for weights in AMX tiles, with the kernels given: the machine's or the stand-in.
void matmul_amx(ThreadPool& threads, const AmxKernels& kernels, Matrix<const float> x,
                const PackedMatrix& weights, Matrix<float> y, Accumulate accumulate);

}  // namespace penstock
