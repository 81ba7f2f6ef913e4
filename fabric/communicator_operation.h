// One collective under way at one member: which messages it exchanges and what it does with them.
//
// Written over PointToPoint alone. Small reductions go from everybody to everybody in one step. Large ones
// are cut into chunks: every member gets its piece of a chunk from all others, adds in rank order, hands the
// sum round. That is the traffic of a ring, without its n - 1 dependent steps. A few chunks are under way at
// a time, so that scratch stays in the cache and adding overlaps moving.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fabric/communicator.h"
#include "fabric/communicator_point_to_point.h"

namespace penstock {

enum class Call : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kSendRecv,
  kBarrier,
  kControl
};

[[nodiscard]] std::string describe_call(const CallSignature& signature);
[[nodiscard]] uint64_t message_key(Call call, int group, uint64_t sequence, uint64_t step);

// A group as an operation sees it; outlives it.
struct GroupView {
  PointToPoint* link = nullptr;
  int id = 0;
  std::vector<int> members;  // world ranks
  int me = 0;                // index in members
  int size() const { return static_cast<int>(members.size()); }
};

class Operation {
 public:
  Operation(const GroupView& group, uint64_t sequence, const CallSignature& signature)
      : group_(group), sequence_(sequence), signature_(signature) {}
  virtual ~Operation() = default;
  virtual void start() = 0;
  // Goes on with what has arrived. True: over, well or with a failure().
  virtual bool advance() = 0;

  const std::optional<Failure>& failure() const { return failure_; }
  // World ranks that have not done their part of what was posted.
  std::vector<int> missing() const;
  // What was under way with a rank when it went may never be given back by the library.
  std::optional<Failure> waits_for_the_dead() const;
  size_t settled_transfers() const { return settled_; }
  std::string describe() const;

 protected:
  using Batch = std::deque<Transfer>;
  Batch& add_batch() { return batches_.emplace_back(); }
  void post_send(Batch& batch, int member, uint64_t step, const std::byte* data, size_t bytes);
  void post_receive(Batch& batch, int member, uint64_t step, std::byte* data, size_t bytes);
  // All of it done; checks what is done against what this member called.
  bool settled(Batch& batch);

  const GroupView& group_;
  const uint64_t sequence_;
  const CallSignature signature_;

 private:
  void post(Batch& batch, int member, uint64_t step, std::byte* data, size_t bytes, bool send);
  void check_done(const Transfer& transfer);
  Failure gone(int rank) const;

  std::deque<Batch> batches_;
  std::optional<Failure> failure_;
  size_t settled_ = 0;
};

// The part of a reduction or gathering that one member holds.
struct ShardedData {
  std::byte* data = nullptr;
  int64_t count = 0;
  int64_t shard_count = 0;
  ElementType type = ElementType::kF32;
  Reduction reduction = Reduction::kSum;
};

// all_reduce of few bytes, and barrier.
[[nodiscard]] std::unique_ptr<Operation> make_direct_reduce(const GroupView& group, uint64_t sequence,
                                                            const CallSignature& signature,
                                                            const ShardedData& data);
// reduce_scatter (reduce), all_gather (gather), all_reduce (both).
[[nodiscard]] std::unique_ptr<Operation> make_sharded(const GroupView& group, uint64_t sequence,
                                                      const CallSignature& signature, const ShardedData& data,
                                                      bool reduce, bool gather);
// The same bytes to some members, or from one.
[[nodiscard]] std::unique_ptr<Operation> make_send(const GroupView& group, uint64_t sequence,
                                                   const CallSignature& signature, const std::byte* data,
                                                   size_t bytes, std::vector<int> to);
[[nodiscard]] std::unique_ptr<Operation> make_receive(const GroupView& group, uint64_t sequence,
                                                      const CallSignature& signature, std::byte* data,
                                                      size_t bytes, int from);

}  // namespace penstock
