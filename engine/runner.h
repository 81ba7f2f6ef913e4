// Runner: one forward pass of one model on one device, as the engine sees it.
//
// Belongs to the engine thread. Implemented by ModelRunner (real weights) and by fakes in tests. All memory
// is taken at construction: run() allocates nothing.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "kernels/isa.h"
#include "model/llama.h"

namespace penstock {

class Runner {
 public:
  virtual ~Runner() = default;
  // Computes the batch, writing KV into the pool; on_layer(l) runs when the K and V of layer l are written,
  // so that they may be read by others. logits(i) then is the row of batch.logit_rows[i], valid until the
  // next run. A failure means that the whole step has no result.
  virtual Status run(const ForwardBatch& batch, LayerCallback on_layer) = 0;
  virtual std::span<const float> logits(int64_t index) const = 0;
  // Calls fn(i) once for each i in [0, count), in any order and perhaps at once, on the forward pass's
  // threads.
  virtual void for_each(int64_t count, FunctionRef<void(int64_t)> fn) = 0;
  virtual Isa isa() const = 0;
  virtual int32_t layers() const = 0;
};

}  // namespace penstock
