// TransferWriter: the bytes of one handoff on the prefill side: what is ready, posted, flushed, digested.
//
// Owned by HandoffSender, same thread. It must live until idle(): completions point at it.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "fabric/transport.h"
#include "kv_transfer/block_digest.h"
#include "kv_transfer/handoff_types.h"

namespace penstock {

// Blocks [first, first + count) of the sequence in one plane.
struct PlaneRange {
  uint32_t plane = 0;
  uint32_t first = 0;
  uint32_t count = 0;
};

struct WriteTarget {
  PeerId peer;
  RemoteMemoryId memory;
  uint32_t pool_blocks = 0;  // of the target: its planes lie so far apart
  std::vector<BlockId> blocks;
};

class TransferWriter {
 public:
  TransferWriter(Transport& transport, const HandoffPool& pool, const HandoffOptions& options,
                 std::vector<BlockId> source, uint32_t tokens);

  // Tokens [0, token_end) of `layer` are in the source blocks.
  void layer_ready(int32_t layer, uint32_t token_end);

  void set_target(WriteTarget target);
  bool has_target() const { return !target_.blocks.empty(); }

  // Posts what is ready, at least one put and about `budget` bytes at most, and flushes now and then.
  // Returns true when more could be posted at once. A failure shows in failure().
  bool post(size_t budget);

  // Posts nothing more. Flushes what was posted; idle() tells when that has ended.
  void stop();

  bool all_flushed() const { return bytes_flushed_ == bytes_total_; }
  bool idle() const { return puts_under_way_ == 0 && !flush_under_way_; }
  // After stop(): everything posted is known to have landed.
  bool landed() const { return idle() && !failure_ && unflushed_.empty(); }
  const std::optional<Failure>& failure() const { return failure_; }

  std::vector<PlaneRange> take_flushed();
  uint64_t bytes_total() const { return bytes_total_; }
  uint64_t bytes_posted() const { return bytes_posted_; }
  uint64_t bytes_flushed() const { return bytes_flushed_; }
  uint64_t puts() const { return puts_; }
  uint64_t digest() const { return digest_.combined(); }

 private:
  struct Layer {
    uint32_t ready = 0;           // whole blocks, from the start of the sequence
    uint32_t posted[2] = {0, 0};  // keys, values
    bool queued = false;
  };
  bool post_next(int32_t layer_index);
  void zero_unused(uint32_t plane, uint32_t end);
  void digest_run(uint32_t plane, uint32_t first, uint32_t count);
  void plant_flipped_byte(uint32_t plane, uint32_t position);
  void flush_if_due();
  void flush();
  std::byte* source_block(uint32_t plane, uint32_t position) const;
  uint64_t target_offset(uint32_t plane, uint32_t position) const;
  uint32_t blocks() const { return static_cast<uint32_t>(source_.size()); }

  Transport& transport_;
  const HandoffPool& pool_;
  const HandoffOptions& options_;
  std::vector<BlockId> source_;
  uint32_t tokens_;
  WriteTarget target_;
  std::vector<Layer> layers_;
  std::deque<int32_t> queue_;  // layers with blocks that are ready and not posted
  TransferDigest digest_;
  bool stopped_ = false;
  size_t puts_under_way_ = 0;
  bool flush_under_way_ = false;
  std::vector<PlaneRange> unflushed_, flushing_, flushed_;
  size_t unflushed_bytes_ = 0;
  uint64_t bytes_total_ = 0, bytes_posted_ = 0, bytes_flushed_ = 0, puts_ = 0;
  std::optional<Failure> failure_;
};

}  // namespace penstock
