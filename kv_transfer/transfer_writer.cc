#include "kv_transfer/transfer_writer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/fault_point.h"
#include "kv_transfer/canary.h"
#include "kv_transfer/transfer_plan.h"

namespace penstock {

TransferWriter::TransferWriter(Transport& transport, const HandoffPool& pool, const HandoffOptions& options,
                               std::vector<BlockId> source, uint32_t tokens)
    : transport_(transport), pool_(pool), options_(options), source_(std::move(source)), tokens_(tokens) {
  const auto planes = static_cast<size_t>(pool_.layout.planes());
  layers_.resize(static_cast<size_t>(pool_.layout.layers));
  bytes_total_ = planes * source_.size() * static_cast<size_t>(pool_.layout.block_bytes());
  if (options_.digests) digest_ = TransferDigest(planes, source_.size());
}

void TransferWriter::layer_ready(int32_t layer, uint32_t token_end) {
  Layer& state = layers_[static_cast<size_t>(layer)];
  const bool complete = token_end >= tokens_;
  const uint32_t ready = complete ? blocks() : token_end / static_cast<uint32_t>(pool_.layout.block_tokens);
  state.ready = std::max(state.ready, ready);
  if (state.queued || state.posted[1] == state.ready) return;
  state.queued = true;
  queue_.push_back(layer);
}

void TransferWriter::set_target(WriteTarget target) { target_ = std::move(target); }

bool TransferWriter::post(size_t budget) {
  if (!has_target() || stopped_ || failure_) return false;
  const uint64_t posted_before = bytes_posted_;
  while (!queue_.empty() && !failure_ && bytes_posted_ - posted_before < budget) {
    const int32_t layer = queue_.front();
    if (post_next(layer)) {
      flush_if_due();
      continue;
    }
    layers_[static_cast<size_t>(layer)].queued = false;
    queue_.pop_front();
  }
  flush_if_due();
  return !queue_.empty() && !failure_;
}

// Every PROGRESS wakes D, which costs more than a small digest; D digests faster than puts go. So: half of
// what is left at a time, and little at the end, for which D then waits.
void TransferWriter::flush_if_due() {
  const uint64_t left = bytes_total_ - bytes_posted_;
  const bool enough = unflushed_bytes_ >= std::max<uint64_t>(options_.progress_bytes, left);
  if (enough || (left == 0 && unflushed_bytes_ > 0)) flush();
}

// One put: keys before values. False when nothing of the layer is left to post.
bool TransferWriter::post_next(int32_t layer_index) {
  Layer& layer = layers_[static_cast<size_t>(layer_index)];
  const uint32_t half = layer.posted[0] < layer.ready ? 0 : 1;
  if (layer.posted[half] >= layer.ready) return false;
  const uint32_t plane = 2 * static_cast<uint32_t>(layer_index) + half;
  const auto block_bytes = static_cast<size_t>(pool_.layout.block_bytes());
  const auto count_max = static_cast<uint32_t>(std::max<size_t>(options_.put_bytes_max / block_bytes, 1));
  const BlockRun run = next_run(source_, target_.blocks, layer.posted[half], layer.ready, count_max);
  zero_unused(plane, run.position + run.count);
  plant_flipped_byte(plane, run.position);
  const size_t bytes = run.count * block_bytes;
  const Status status = transport_.put(target_.peer, source_block(plane, run.position), target_.memory,
                                       target_offset(plane, run.position), bytes, [this](const Status& done) {
                                         puts_under_way_ -= 1;
                                         if (!done.ok() && !failure_) failure_ = done.failure();
                                       });
  if (!status.ok()) {
    failure_ = status.failure();
    return true;
  }
  puts_under_way_ += 1;
  layer.posted[half] += run.count;
  digest_run(plane, run.position, run.count);
  unflushed_.push_back({plane, run.position, run.count});
  unflushed_bytes_ += bytes;
  const bool crosses_half = bytes_posted_ < bytes_total_ / 2 && bytes_posted_ + bytes >= bytes_total_ / 2;
  bytes_posted_ += bytes;
  if (++puts_ == 1) FAULT_POINT("kv.first_put");
  if (crosses_half) FAULT_POINT("kv.mid_write");
  return true;
}

// The last block's unused part must not leave with what an earlier sequence left there.
void TransferWriter::zero_unused(uint32_t plane, uint32_t end) {
  const auto used = static_cast<int32_t>(tokens_ % static_cast<uint32_t>(pool_.layout.block_tokens));
  if (end != blocks() || used == 0) return;
  std::byte* last = source_block(plane, blocks() - 1);
  if (plane % 2 == 0) zero_unused_keys(last, pool_.layout, used);
  if (plane % 2 == 1) zero_unused_values(last, pool_.layout, used);
}

// Behind the put, not before it: over shared memory the put has just read the run into the cache.
void TransferWriter::digest_run(uint32_t plane, uint32_t first, uint32_t count) {
  if (!options_.digests) return;
  for (uint32_t position = first; position < first + count; ++position) {
    if (digest_.known(plane, position)) continue;
    digest_.set(plane, position,
                block_digest(source_block(plane, position), static_cast<size_t>(pool_.layout.block_bytes())));
  }
}

// Test builds only: what arrives then differs by one byte from what was digested.
void TransferWriter::plant_flipped_byte(uint32_t plane, uint32_t position) {
  if (!FAULT_ARMED("kv.flip_byte", "flip")) return;
  digest_run(plane, position, 1);
  *source_block(plane, position) ^= std::byte{1};
}

void TransferWriter::flush() {
  if (flush_under_way_) return;
  flushing_ = std::exchange(unflushed_, {});
  unflushed_bytes_ = 0;
  flush_under_way_ = true;
  const Status status = transport_.flush(target_.peer, [this](const Status& done) {
    flush_under_way_ = false;
    if (!done.ok()) {
      if (!failure_) failure_ = done.failure();
      return;
    }
    for (const PlaneRange& range : std::exchange(flushing_, {})) {
      bytes_flushed_ += range.count * static_cast<uint64_t>(pool_.layout.block_bytes());
      flushed_.push_back(range);
    }
  });
  if (status.ok()) return;
  flush_under_way_ = false;
  if (!failure_) failure_ = status.failure();
}

void TransferWriter::stop() {
  stopped_ = true;
  if (!unflushed_.empty() && !failure_ && !CANARY(kDrainedUnflushed)) flush();
}

std::vector<PlaneRange> TransferWriter::take_flushed() { return std::exchange(flushed_, {}); }

std::byte* TransferWriter::source_block(uint32_t plane, uint32_t position) const {
  const int64_t offset = pool_.layout.block_offset(static_cast<int32_t>(plane / 2), plane % 2 == 1,
                                                   source_[position].value(), pool_.blocks);
  return pool_.memory.base + offset;
}

uint64_t TransferWriter::target_offset(uint32_t plane, uint32_t position) const {
  return static_cast<uint64_t>(pool_.layout.block_offset(static_cast<int32_t>(plane / 2), plane % 2 == 1,
                                                         target_.blocks[position].value(),
                                                         target_.pool_blocks));
}

}  // namespace penstock
