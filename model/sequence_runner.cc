#include "model/sequence_runner.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace penstock {

Result<SequenceRunner> SequenceRunner::make(Model& model, Device& device, Stream& stream,
                                            const Options& options) {
  SequenceRunner runner(model, stream);
  const ModelConfig& config = model.config();
  const int64_t positions_max = options.positions_max > 0 ? options.positions_max : model.positions_max();
  CHECK(options.chunk > 0 && positions_max <= model.positions_max());
  runner.chunk_ = options.chunk;
  runner.pool_.layout = kv_layout_of(config, options.block_tokens, options.kv_dtype);
  RETURN_IF_ERROR(runner.pool_.layout.validate());
  runner.pool_.blocks = runner.pool_.layout.blocks_for(positions_max);
  ASSIGN_OR_RETURN(runner.pool_memory_, device.allocate(runner.pool_.layout.pool_bytes(runner.pool_.blocks)));
  runner.pool_.base = runner.pool_memory_.data();
  ASSIGN_OR_RETURN(runner.logits_memory_, device.allocate(options.chunk * config.vocab_size * 4));
  runner.host_logits_.resize(static_cast<size_t>(options.chunk * config.vocab_size));
  runner.block_table_.resize(static_cast<size_t>(runner.pool_.blocks));
  // From the pool's end to its start, so that a mix-up of block numbers and block order shows.
  std::iota(runner.block_table_.rbegin(), runner.block_table_.rend(), 0U);
  runner.positions_.resize(static_cast<size_t>(options.chunk));
  runner.logit_rows_.resize(static_cast<size_t>(options.chunk));
  std::iota(runner.logit_rows_.begin(), runner.logit_rows_.end(), 0);
  return runner;
}

Status SequenceRunner::feed(std::span<const TokenId> tokens, Logits wanted, Visit visit,
                            HiddenObserver observer) {
  for (const TokenId token : tokens) {
    if (token < 0 || token >= model_->config().vocab_size) {
      return fail(Error::kInvalidArgument, "token id " + std::to_string(token) +
                                               " is not below the vocabulary's " +
                                               std::to_string(model_->config().vocab_size));
    }
  }
  const int64_t room = pool_.blocks * pool_.layout.block_tokens;
  const int64_t limit = std::min(room, model_->positions_max());
  if (position_ + static_cast<int64_t>(tokens.size()) > limit) {
    return fail(Error::kInvalidArgument, std::to_string(position_ + static_cast<int64_t>(tokens.size())) +
                                             " tokens exceed the context of " + std::to_string(limit));
  }
  while (!tokens.empty()) {
    const auto chunk = tokens.first(std::min(tokens.size(), static_cast<size_t>(chunk_)));
    tokens = tokens.subspan(chunk.size());
    std::span<const int32_t> rows = std::span(logit_rows_).first(chunk.size());
    if (wanted == Logits::kNone || (wanted == Logits::kLast && !tokens.empty())) rows = {};
    if (wanted == Logits::kLast && !rows.empty()) rows = rows.last(1);
    RETURN_IF_ERROR(run_chunk(chunk, rows, visit, observer));
  }
  return {};
}

Status SequenceRunner::run_chunk(std::span<const TokenId> tokens, std::span<const int32_t> logit_rows,
                                 Visit visit, HiddenObserver observer) {
  const auto rows = static_cast<int64_t>(tokens.size()), wanted = static_cast<int64_t>(logit_rows.size());
  const int64_t vocab = model_->config().vocab_size;
  std::iota(positions_.begin(), positions_.begin() + rows, static_cast<int32_t>(position_));
  const SequenceSlice slice{0, rows, position_, block_table_};
  const ForwardBatch batch{tokens, std::span(positions_).first(tokens.size()), std::span(&slice, 1),
                           logit_rows};
  const Matrix<float> logits(logits_memory_.as<float>(), wanted, vocab);
  model_->forward(*stream_, batch, pool_, logits, {}, observer);
  stream_->copy_async(host_logits_.data(), logits.data, wanted * vocab * 4, CopyKind::kDeviceToHost);
  RETURN_IF_ERROR(stream_->synchronize());
  for (int64_t i = 0; i < wanted; ++i) {
    visit(position_ + logit_rows[static_cast<size_t>(i)],
          std::span(host_logits_).subspan(static_cast<size_t>(i * vocab), static_cast<size_t>(vocab)));
  }
  position_ += rows;
  return {};
}

}  // namespace penstock
