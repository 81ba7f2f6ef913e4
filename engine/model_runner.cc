#include "engine/model_runner.h"

#include <utility>

#include "kernels/thread_pool.h"

namespace penstock {

Result<std::unique_ptr<ModelRunner>> ModelRunner::create(Device& device, std::unique_ptr<Stream> stream,
                                                         Model& model, const KvPoolView& pool,
                                                         int64_t logit_rows_max) {
  const int64_t bytes = logit_rows_max * model.config().vocab_size * static_cast<int64_t>(sizeof(float));
  auto logits = device.allocate(bytes).with_context("logits of a full batch");
  if (!logits.ok()) return logits.failure();
  return std::unique_ptr<ModelRunner>(
      new ModelRunner(std::move(stream), model, pool, std::move(*logits), logit_rows_max));
}

ModelRunner::ModelRunner(std::unique_ptr<Stream> stream, Model& model, const KvPoolView& pool,
                         DeviceBuffer logits, int64_t logit_rows_max)
    : stream_(std::move(stream)),
      model_(model),
      pool_(pool),
      device_logits_(std::move(logits)),
      logit_rows_max_(logit_rows_max) {
  if (stream_->kind() != DeviceKind::kCpu) {
    host_logits_.resize(static_cast<size_t>(logit_rows_max * model.config().vocab_size));
  }
}

Status ModelRunner::run(const ForwardBatch& batch, LayerCallback on_layer) {
  const int64_t rows = static_cast<int64_t>(batch.logit_rows.size());
  CHECK_LE(rows, logit_rows_max_);
  const Matrix<float> logits(device_logits_.as<float>(), rows, model_.config().vocab_size);
  model_.forward(*stream_, batch, pool_, logits, on_layer);
  if (!host_logits_.empty() && rows > 0) {
    const int64_t bytes = rows * logits.cols * static_cast<int64_t>(sizeof(float));
    stream_->copy_async(host_logits_.data(), logits.data, bytes, CopyKind::kDeviceToHost);
  }
  return stream_->synchronize();
}

void ModelRunner::for_each(int64_t count, FunctionRef<void(int64_t)> fn) {
  if (stream_->kind() == DeviceKind::kCpu) {
    stream_->threads().parallel_for(count, fn);
  } else {
    for (int64_t i = 0; i < count; ++i) fn(i);
  }
}

std::span<const float> ModelRunner::logits(int64_t index) const {
  const int64_t vocab = model_.config().vocab_size;
  const float* base = host_logits_.empty() ? device_logits_.as<float>() : host_logits_.data();
  return {base + index * vocab, static_cast<size_t>(vocab)};
}

}  // namespace penstock
