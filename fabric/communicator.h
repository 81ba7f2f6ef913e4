// Collectives between the ranks of one group: what tensor, pipeline and data parallelism are made of.
//
// A Communicator belongs to one member of one group and to the thread that owns its RankWorld
// (communicator_world.h), which must outlive it. Every member starts the same collectives in the same order;
// send and recv are ordered for each pair alone. `start_*` posts and returns: buffers belong to the operation
// until wait() returns. progress() between pieces of compute lets it advance meanwhile.
//
// Reductions add in rank order, element by element, whatever the size: all members get the same bits, and so
// does every algorithm. bf16 is summed in f32 and rounded once.
//
// A member that is dead, or silent for the deadline, ends the operation with kUnavailable or
// kDeadlineExceeded and its rank; members that call different things end with kIncompatible and both calls.
// After any of these the whole world is broken: every operation of every group fails with that message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace penstock {

enum class ElementType : uint8_t { kF32, kBf16, kF64, kI32, kU8 };
enum class Reduction : uint8_t { kSum, kMax };

[[nodiscard]] size_t element_bytes(ElementType type);
[[nodiscard]] std::string_view element_name(ElementType type);

// The elements of member `index` when `count` elements lie in shards of `shard_count`: the last shards may be
// short or empty.
struct Shard {
  int64_t begin = 0;
  int64_t count = 0;
};
[[nodiscard]] Shard shard_of(int64_t count, int64_t shard_count, int index);
// Even shards: count / size, rounded up.
[[nodiscard]] int64_t even_shard_count(int64_t count, int size);

// One operation under way.
struct OperationId {
  uint64_t value = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;  // index in the group
  virtual int size() const = 0;

  // In place: every member ends with the sum or maximum.
  virtual OperationId start_all_reduce(void* data, int64_t count, ElementType type, Reduction reduction) = 0;
  // In place over `count` elements in shards of `shard_count`: the own shard becomes the sum of all members',
  // the rest stays as it was. `count <= shard_count * size()`.
  virtual OperationId start_reduce_scatter(void* data, int64_t count, int64_t shard_count,
                                           ElementType type) = 0;
  // In place: the own shard goes out, all others come in.
  virtual OperationId start_all_gather(void* data, int64_t count, int64_t shard_count, ElementType type) = 0;
  virtual OperationId start_broadcast(void* data, int64_t count, ElementType type, int root) = 0;
  virtual OperationId start_send(const void* data, int64_t count, ElementType type, int to) = 0;
  virtual OperationId start_recv(void* data, int64_t count, ElementType type, int from) = 0;
  virtual OperationId start_barrier() = 0;

  // Advances whatever can be advanced, of all groups, without waiting.
  virtual void progress() = 0;
  // True once wait() would not wait.
  virtual bool finished(OperationId operation) const = 0;
  // Polls, giving way to other processes, for 50 us without news; sleeps after that.
  [[nodiscard]] virtual Status wait(OperationId operation) = 0;

  [[nodiscard]] Status all_reduce(void* data, int64_t count, ElementType type,
                                  Reduction reduction = Reduction::kSum) {
    return wait(start_all_reduce(data, count, type, reduction));
  }
  [[nodiscard]] Status reduce_scatter(void* data, int64_t count, int64_t shard_count, ElementType type) {
    return wait(start_reduce_scatter(data, count, shard_count, type));
  }
  [[nodiscard]] Status all_gather(void* data, int64_t count, int64_t shard_count, ElementType type) {
    return wait(start_all_gather(data, count, shard_count, type));
  }
  [[nodiscard]] Status broadcast(void* data, int64_t count, ElementType type, int root) {
    return wait(start_broadcast(data, count, type, root));
  }
  [[nodiscard]] Status send(const void* data, int64_t count, ElementType type, int to) {
    return wait(start_send(data, count, type, to));
  }
  [[nodiscard]] Status recv(void* data, int64_t count, ElementType type, int from) {
    return wait(start_recv(data, count, type, from));
  }
  [[nodiscard]] Status barrier() { return wait(start_barrier()); }
};

}  // namespace penstock
