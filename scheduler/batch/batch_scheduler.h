// Continuous batching of one node: who runs in the next forward pass, with which KV blocks.
//
// Pure state machine: step(now, event) -> actions, no clock, thread, log or device. Owned and called by the
// engine thread alone; spans handed out stay on that thread or are copied. Lives as long as the engine.
//
// Policy. A step takes one token of every decoding sequence first, then prefill chunks in arrival order up to
// batch_tokens_max. A sequence gets the blocks of all tokens it has when it is admitted and grows block by
// block as it decodes. Out of blocks, the latest arrived sequence is preempted and later recomputed (prompt +
// generated tokens); sequences with an open handoff are never preempted. Admission is strictly in arrival
// order, so the oldest sequence always progresses or waits only for handoffs, which end without this node's
// help.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/time.h"
#include "scheduler/batch/batch_events.h"
#include "scheduler/batch/block_pool.h"

namespace penstock::scheduler {

struct BatchConfig {
  int32_t pool_blocks = 0;
  int32_t block_tokens = 64;
  int32_t batch_tokens_max = 512;  // rows of one step; at least sequences_max
  int32_t sequences_max = 64;      // admitted or reserved at a time
  int32_t waiting_max = 1024;      // not yet admitted; preempted sequences do not count
  int32_t context_max = 0;         // tokens of one sequence, prompt included; 0: what the pool holds
  // RESERVE is due when at most this many tokens of prefill remain, at the latest with the last chunk. The
  // driver sets it to prefill speed x (queue + transfer time + four layers), see DESIGN 4.2.
  int32_t reserve_lead_tokens = 0;
};

// For the node's frame to the router and for metrics.
struct BatchLoad {
  int32_t blocks_free = 0, blocks_held = 0, blocks_leased = 0, blocks_quarantined = 0;
  int32_t running = 0;                          // admitted and not ended
  int32_t reserved = 0;                         // kDecode before COMMIT
  int32_t waiting = 0;                          // not yet admitted, or preempted
  int64_t waiting_tokens = 0;                   // tokens still to prefill, of waiting and running sequences
  TimePoint oldest_waiting = TimePoint::max();  // arrival of the first in the queue; max(): queue empty
};

class BatchScheduler {
 public:
  explicit BatchScheduler(const BatchConfig& config);
  ~BatchScheduler();
  BatchScheduler(const BatchScheduler&) = delete;
  BatchScheduler& operator=(const BatchScheduler&) = delete;

  // The actions are valid until the next call. Events about unknown keys are ignored: they come from messages
  // that crossed an end.
  const BatchActions& step(TimePoint now, const BatchEvent& event);

  // Blocks of a known sequence in position order; empty for unknown keys and while it waits. Unchanged while
  // the sequence is part of a step in flight.
  std::span<const BlockId> blocks_of(SequenceKey key) const;
  // Prompt and generated tokens; empty for unknown keys.
  std::span<const TokenId> tokens_of(SequenceKey key) const;

  BatchLoad load() const;
  bool step_in_flight() const { return in_flight_; }
  // Longest sequence this node can hold: the smaller of context_max and the pool. A sequence that reaches it
  // ends with kLength.
  int32_t context_max() const { return context_max_; }
  void set_reserve_lead_tokens(int32_t tokens) { config_.reserve_lead_tokens = tokens; }

  // CHECKs conservation of blocks, one owner per block, states that fit the sequences. For tests and sim.
  void check_invariants() const;
  const BlockPool& pool() const { return pool_; }

 private:
  enum class Phase : uint8_t {
    kWaiting,      // in waiting_, no blocks
    kRunning,      // in running_, blocks held
    kReserved,     // kDecode before COMMIT, blocks leased
    kHandoff,      // kPrefill after its last chunk, blocks leased
    kQuarantined,  // ended, the remote party not known to be done
  };
  struct Sequence;
  using Queue = std::vector<Sequence*>;  // in arrival order

  void handle(const Add& event);
  void handle(const Reserve& event);
  void handle(const KvCommitted& event);
  void handle(const HandoffEnded& event);
  void handle(const StepDone& event);
  void handle(const Abort& event);
  void handle(const Schedule& event);

  Sequence* find(SequenceKey key) const;
  std::optional<RefuseReason> why_refused(const SequenceSpec& spec) const;
  Sequence& insert(SequenceKind kind, const SequenceSpec& spec, Phase phase);
  void refuse(const SequenceSpec& spec, RefuseReason reason);
  int32_t blocks_for(size_t tokens) const;

  void slice_decodes();
  void slice_prefills();
  void admit_waiting();
  void add_slice(Sequence& sequence);
  bool make_room_for(Sequence& sequence);
  Sequence* preemption_victim() const;
  void preempt(Sequence& sequence);

  void accept_token(Sequence& sequence, TokenId token, int32_t result_index);
  EndReason judge(const Sequence& sequence) const;
  void end(Sequence& sequence, EndReason reason);
  void free_and_forget(Sequence& sequence);
  void leave_queues(Sequence& sequence);

  BatchConfig config_;
  int32_t context_max_ = 0;
  BlockPool pool_;
  TimePoint now_;
  uint64_t arrivals_ = 0;
  std::map<SequenceKey, std::unique_ptr<Sequence>> sequences_;
  Queue running_;
  Queue waiting_;
  int32_t reserved_ = 0;
  int32_t waiting_blocks_ = 0;  // what admitting all of waiting_ would take
  bool in_flight_ = false;
  int32_t step_tokens_ = 0;
  std::vector<Slice> slices_;
  BatchActions actions_;
};

}  // namespace penstock::scheduler
