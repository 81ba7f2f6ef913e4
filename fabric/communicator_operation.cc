#include "fabric/communicator_operation.h"

#include <algorithm>

#include "base/check.h"
#include "fabric/communicator_reduce.h"

namespace penstock {
namespace {

constexpr int64_t kPieceBytes = 256 << 10;  // of one member's part of a chunk
constexpr int64_t kStepsMax = int64_t{1} << 20;
constexpr int kSlots = 3;  // chunks under way

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Everybody's data to everybody, added by each.
class DirectReduce final : public Operation {
 public:
  DirectReduce(const GroupView& group, uint64_t sequence, const CallSignature& signature,
               const ShardedData& data)
      : Operation(group, sequence, signature), data_(data), batch_(add_batch()) {}

  void start() override {
    const size_t bytes = static_cast<size_t>(data_.count) * element_bytes(data_.type);
    scratch_.resize(bytes * static_cast<size_t>(group_.size()));
    inputs_.resize(static_cast<size_t>(group_.size()));
    for (int member = 0; member < group_.size(); ++member) {
      std::byte* place = scratch_.data() + bytes * static_cast<size_t>(member);
      inputs_[static_cast<size_t>(member)] = member == group_.me ? data_.data : place;
      if (member != group_.me) post_receive(batch_, member, 0, place, bytes);
    }
    for (int hop = 1; hop < group_.size(); ++hop)
      post_send(batch_, (group_.me + hop) % group_.size(), 0, data_.data, bytes);
  }

  bool advance() override {
    if (!settled(batch_)) return failure().has_value();
    if (!failure() && group_.size() > 1)
      reduce_in_order(inputs_, data_.data, data_.count, data_.type, data_.reduction);
    return true;
  }

 private:
  const ShardedData data_;
  Batch& batch_;
  std::vector<std::byte> scratch_;
  std::vector<const std::byte*> inputs_;
};

class Sharded final : public Operation {
 public:
  Sharded(const GroupView& group, uint64_t sequence, const CallSignature& signature, const ShardedData& data,
          bool reduce, bool gather)
      : Operation(group, sequence, signature), data_(data), reduce_(reduce), gather_(gather) {
    width_ = static_cast<int64_t>(element_bytes(data.type));
    piece_count_ = std::max(kPieceBytes / width_, divide_up(data.shard_count, kStepsMax / 2));
    chunks_ = std::max<int64_t>(1, divide_up(data.shard_count, piece_count_));
  }

  void start() override {
    for (int i = 0; i < kSlots; ++i) {
      Slot& slot = slots_.emplace_back(add_batch());
      take_chunk(slot);
    }
  }

  bool advance() override {
    bool over = true;
    for (Slot& slot : slots_) {
      while (slot.chunk >= 0 && settled(slot.batch) && !failure()) step(slot);
      if (slot.chunk >= 0) over = false;
    }
    return over || failure().has_value();
  }

 private:
  struct Slot {
    explicit Slot(Batch& its_batch) : batch(its_batch) {}
    Batch& batch;
    int64_t chunk = -1;
    bool gathering = false;
    std::vector<std::byte> scratch;
    std::vector<const std::byte*> inputs;
  };

  void step(Slot& slot) {
    if (!slot.gathering && reduce_) {
      const Shard mine = piece(slot.chunk, group_.me);
      reduce_in_order(slot.inputs, at(mine), mine.count, data_.type, data_.reduction);
      if (gather_) return post_gather(slot);
    }
    take_chunk(slot);
  }

  void take_chunk(Slot& slot) {
    slot.chunk = next_chunk_ < chunks_ ? next_chunk_++ : -1;
    slot.batch.clear();
    if (slot.chunk < 0) return;
    if (reduce_)
      post_scatter(slot);
    else
      post_gather(slot);
  }

  void post_scatter(Slot& slot) {
    slot.gathering = false;
    slot.batch.clear();
    const Shard mine = piece(slot.chunk, group_.me);
    slot.scratch.resize(bytes_of(mine) * static_cast<size_t>(group_.size()));
    slot.inputs.assign(static_cast<size_t>(group_.size()), at(mine));
    const auto step = static_cast<uint64_t>(slot.chunk) * 2;
    for (int member = 0; member < group_.size(); ++member) {
      if (member == group_.me) continue;
      std::byte* place = slot.scratch.data() + bytes_of(mine) * static_cast<size_t>(member);
      slot.inputs[static_cast<size_t>(member)] = place;
      post_receive(slot.batch, member, step, place, bytes_of(mine));
    }
    for (int hop = 1; hop < group_.size(); ++hop) {
      const int member = (group_.me + hop) % group_.size();
      const Shard theirs = piece(slot.chunk, member);
      post_send(slot.batch, member, step, at(theirs), bytes_of(theirs));
    }
  }

  // What a member sent us of its own piece, it had read our whole part of before: writing over it is safe.
  void post_gather(Slot& slot) {
    slot.gathering = true;
    slot.batch.clear();
    // Whatever is called, its first message has step 0: there a mismatch meets.
    const auto step = static_cast<uint64_t>(slot.chunk) * 2 + (reduce_ ? 1 : 0);
    for (int member = 0; member < group_.size(); ++member) {
      const Shard theirs = piece(slot.chunk, member);
      if (member != group_.me) post_receive(slot.batch, member, step, at(theirs), bytes_of(theirs));
    }
    const Shard mine = piece(slot.chunk, group_.me);
    for (int hop = 1; hop < group_.size(); ++hop)
      post_send(slot.batch, (group_.me + hop) % group_.size(), step, at(mine), bytes_of(mine));
  }

  Shard piece(int64_t chunk, int member) const {
    const Shard shard = shard_of(data_.count, data_.shard_count, member);
    const int64_t begin = std::min(chunk * piece_count_, shard.count);
    return {shard.begin + begin, std::min(piece_count_, shard.count - begin)};
  }
  std::byte* at(const Shard& shard) const { return data_.data + shard.begin * width_; }
  size_t bytes_of(const Shard& shard) const { return static_cast<size_t>(shard.count * width_); }

  const ShardedData data_;
  const bool reduce_, gather_;
  int64_t width_ = 0, piece_count_ = 0, chunks_ = 0, next_chunk_ = 0;
  std::deque<Slot> slots_;
};

class Copy final : public Operation {
 public:
  Copy(const GroupView& group, uint64_t sequence, const CallSignature& signature, std::byte* data,
       size_t bytes, std::vector<int> to, std::optional<int> from)
      : Operation(group, sequence, signature),
        data_(data),
        bytes_(bytes),
        to_(std::move(to)),
        from_(from),
        batch_(add_batch()) {}
  void start() override {
    if (from_) post_receive(batch_, *from_, 0, data_, bytes_);
    for (const int member : to_) post_send(batch_, member, 0, data_, bytes_);
  }
  bool advance() override { return settled(batch_) || failure().has_value(); }

 private:
  std::byte* const data_;
  const size_t bytes_;
  const std::vector<int> to_;
  const std::optional<int> from_;
  Batch& batch_;
};

}  // namespace

size_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::kF32:
    case ElementType::kI32:
      return 4;
    case ElementType::kBf16:
      return 2;
    case ElementType::kF64:
      return 8;
    case ElementType::kU8:
      return 1;
  }
  return 1;
}

std::string_view element_name(ElementType type) {
  constexpr std::string_view kNames[] = {"f32", "bf16", "f64", "i32", "u8"};
  return static_cast<size_t>(type) < std::size(kNames) ? kNames[static_cast<size_t>(type)] : "?";
}

Shard shard_of(int64_t count, int64_t shard_count, int index) {
  const int64_t begin = std::min(shard_count * index, count);
  return {begin, std::min(shard_count, count - begin)};
}

int64_t even_shard_count(int64_t count, int size) { return divide_up(count, size); }

std::string describe_call(const CallSignature& signature) {
  constexpr std::string_view kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                         "send/recv",  "barrier",        "control"};
  const auto call = static_cast<Call>(signature.call);
  std::string text(signature.call < std::size(kNames) ? kNames[signature.call] : "?");
  if (call == Call::kBarrier) return text;
  if (call == Call::kAllReduce)
    text += static_cast<Reduction>(signature.reduction) == Reduction::kSum ? "(sum)" : "(max)";
  text += " of " + std::to_string(signature.count) + " ";
  text += element_name(static_cast<ElementType>(signature.element));
  if (call == Call::kReduceScatter || call == Call::kAllGather)
    text += " in shards of " + std::to_string(signature.shard_count);
  if (call == Call::kBroadcast) text += " from member " + std::to_string(signature.root);
  return text;
}

uint64_t message_key(Call call, int group, uint64_t sequence, uint64_t step) {
  // Collectives of a group share one count, whichever they are: how a mismatch meets.
  const uint64_t kind = call == Call::kControl ? 2 : call == Call::kSendRecv ? 1 : 0;
  return kind << 62 | static_cast<uint64_t>(group) << 54 | (sequence & ((1ULL << 33) - 1)) << 21 | step;
}

std::vector<int> Operation::missing() const {
  std::vector<int> ranks;
  for (const Batch& batch : batches_)
    for (const Transfer& transfer : batch)
      if (!transfer.done) ranks.push_back(transfer.peer);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::string Operation::describe() const {
  return describe_call(signature_) + " (group " + std::to_string(group_.id) + ", call " +
         std::to_string(sequence_) + ")";
}

void Operation::post(Batch& batch, int member, uint64_t step, std::byte* data, size_t bytes, bool send) {
  Transfer& transfer = batch.emplace_back();
  transfer.peer = group_.members[static_cast<size_t>(member)];
  transfer.key = message_key(static_cast<Call>(signature_.call), group_.id, sequence_, step);
  transfer.signature = signature_;
  transfer.data = data;
  transfer.bytes = bytes;
  transfer.receives = !send;
  if (send)
    group_.link->post_send(transfer);
  else
    group_.link->post_receive(transfer);
}

void Operation::post_send(Batch& batch, int member, uint64_t step, const std::byte* data, size_t bytes) {
  post(batch, member, step, const_cast<std::byte*>(data), bytes, true);
}

void Operation::post_receive(Batch& batch, int member, uint64_t step, std::byte* data, size_t bytes) {
  post(batch, member, step, data, bytes, false);
}

bool Operation::settled(Batch& batch) {
  bool all = true;
  for (Transfer& transfer : batch) {
    if (transfer.checked) continue;
    if (!transfer.done) {
      all = false;
      continue;
    }
    transfer.checked = true;
    settled_ += 1;
    check_done(transfer);
  }
  return all;
}

Failure Operation::gone(int rank) const {
  const Status why = group_.link->peer_failure(rank);
  return fail(Error::kUnavailable, "rank " + std::to_string(rank) + " is gone" +
                                       (why.ok() ? "" : " (" + why.message() + ")") + ", in " + describe());
}

std::optional<Failure> Operation::waits_for_the_dead() const {
  for (const int rank : missing()) {
    if (group_.link->peer_failure(rank).ok()) continue;
    // It may have done its part and ended in between: what is missing now stays missing.
    for (const int still : missing())
      if (still == rank) return gone(rank);
  }
  return std::nullopt;
}

void Operation::check_done(const Transfer& transfer) {
  if (failure_) return;
  if (transfer.failed) {
    failure_ = gone(transfer.peer);
    return;
  }
  const std::string peer = "rank " + std::to_string(transfer.peer);
  if (transfer.receives &&
      (transfer.received != transfer.signature || transfer.received_bytes != transfer.bytes)) {
    failure_ = fail(Error::kIncompatible,
                    "rank " + std::to_string(group_.link->rank()) + " called " + describe() + " and " + peer +
                        " called " + describe_call(transfer.received) + ": every member must call the same");
  }
}

std::unique_ptr<Operation> make_direct_reduce(const GroupView& group, uint64_t sequence,
                                              const CallSignature& signature, const ShardedData& data) {
  return std::make_unique<DirectReduce>(group, sequence, signature, data);
}

std::unique_ptr<Operation> make_sharded(const GroupView& group, uint64_t sequence,
                                        const CallSignature& signature, const ShardedData& data, bool reduce,
                                        bool gather) {
  return std::make_unique<Sharded>(group, sequence, signature, data, reduce, gather);
}

std::unique_ptr<Operation> make_send(const GroupView& group, uint64_t sequence,
                                     const CallSignature& signature, const std::byte* data, size_t bytes,
                                     std::vector<int> to) {
  return std::make_unique<Copy>(group, sequence, signature, const_cast<std::byte*>(data), bytes,
                                std::move(to), std::nullopt);
}

std::unique_ptr<Operation> make_receive(const GroupView& group, uint64_t sequence,
                                        const CallSignature& signature, std::byte* data, size_t bytes,
                                        int from) {
  return std::make_unique<Copy>(group, sequence, signature, data, bytes, std::vector<int>(), from);
}

}  // namespace penstock
