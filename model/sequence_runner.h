// SequenceRunner: one sequence at a time through a model, with a KV pool of its own, for tools and tests.
//
// Serving goes through engine/; the forward pass is the same. Belongs to one thread. The model, device and
// stream outlive it; the model's rows_max and logit_rows_max must be at least `chunk`.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "base/ids.h"
#include "base/result.h"
#include "kernels/device.h"
#include "model/llama.h"

namespace penstock {

class SequenceRunner {
 public:
  struct Options {
    KvDtype kv_dtype = KvDtype::kBf16;
    int32_t block_tokens = 64;
    int64_t positions_max = 0;  // room in the pool; 0: the model's positions_max
    int64_t chunk = 64;         // most rows of one forward
  };
  // Which positions' logits are wanted.
  enum class Logits : uint8_t { kNone, kLast, kAll };
  using Visit = FunctionRef<void(int64_t position, std::span<const float> logits)>;

  [[nodiscard]] static Result<SequenceRunner> make(Model& model, Device& device, Stream& stream,
                                                   const Options& options);

  // Feeds tokens at the next positions, in chunks; visit sees the logits in order of position. The ids are
  // checked; running out of positions is kInvalidArgument.
  [[nodiscard]] Status feed(std::span<const TokenId> tokens, Logits wanted, Visit visit,
                            HiddenObserver observer = {});
  // Starts a new sequence at position 0.
  void reset() { position_ = 0; }
  int64_t position() const { return position_; }
  KvPoolView pool() const { return pool_; }

 private:
  SequenceRunner(Model& model, Stream& stream) : model_(&model), stream_(&stream) {}
  Status run_chunk(std::span<const TokenId> tokens, std::span<const int32_t> logit_rows, Visit visit,
                   HiddenObserver observer);

  Model* model_;
  Stream* stream_;
  DeviceBuffer pool_memory_, logits_memory_;
  KvPoolView pool_;
  int64_t chunk_ = 0;
  int64_t position_ = 0;
  std::vector<uint32_t> block_table_;
  std::vector<int32_t> positions_, logit_rows_;
  std::vector<float> host_logits_;
};

}  // namespace penstock
