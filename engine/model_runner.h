// ModelRunner: a Runner over real weights, one stream and one KV pool.
//
// Belongs to the engine thread, which must also be the one that makes it: the stream's threads start here.
#pragma once

#include <memory>
#include <vector>

#include "engine/runner.h"
#include "kernels/device.h"

namespace penstock {

class ModelRunner final : public Runner {
 public:
  // `logit_rows_max`: most sequences of one step. Device memory for the logits is taken here.
  static Result<std::unique_ptr<ModelRunner>> create(Device& device, std::unique_ptr<Stream> stream,
                                                     Model& model, const KvPoolView& pool,
                                                     int64_t logit_rows_max);

  Status run(const ForwardBatch& batch, LayerCallback on_layer) override;
  std::span<const float> logits(int64_t index) const override;
  void for_each(int64_t count, FunctionRef<void(int64_t)> fn) override;
  Isa isa() const override { return stream_->isa(); }
  int32_t layers() const override { return static_cast<int32_t>(model_.config().layers); }

 private:
  ModelRunner(std::unique_ptr<Stream> stream, Model& model, const KvPoolView& pool, DeviceBuffer logits,
              int64_t logit_rows_max);
  std::unique_ptr<Stream> stream_;
  Model& model_;
  KvPoolView pool_;
  DeviceBuffer device_logits_;
  std::vector<float> host_logits_;  // on devices whose memory the host cannot read
  int64_t logit_rows_max_;
};

}  // namespace penstock
