// The CPU side of paged_attention below the dispatch, for paged_attention.cc and tests.
#pragma once

#include <span>

#include "kernels/isa.h"
#include "kernels/kv_layer.h"
#include "kernels/tensor.h"
#include "kernels/thread_pool.h"

namespace penstock {

// isa: at most what the machine has.
void paged_attention_cpu(ThreadPool& threads, Isa isa, Matrix<const float> q, const KvLayerView& cache,
                         std::span<const SequenceSlice> slices, float scale, Matrix<float> out);

}  // namespace penstock
