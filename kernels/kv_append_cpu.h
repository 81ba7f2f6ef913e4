// The CPU side of kv_append below the dispatch, for kv_append.cc and tests.
#pragma once

#include <span>

#include "kernels/kv_layer.h"
#include "kernels/tensor.h"
#include "kernels/thread_pool.h"

namespace penstock {

void kv_append_cpu(ThreadPool& threads, Matrix<const float> k, Matrix<const float> v,
                   const KvLayerView& cache, std::span<const SequenceSlice> slices);

}  // namespace penstock
