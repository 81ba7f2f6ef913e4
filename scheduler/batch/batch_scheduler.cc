#include "scheduler/batch/batch_scheduler.h"

#include <algorithm>

#include "base/check.h"
#include "scheduler/canary.h"

namespace penstock::scheduler {

struct BatchScheduler::Sequence {
  SequenceSpec spec;  // spec.tokens grows with every sampled token
  SequenceKind kind = SequenceKind::kLocal;
  Phase phase = Phase::kWaiting;
  uint64_t arrival = 0;
  TimePoint arrived;
  int32_t computed = 0;  // positions whose KV exists
  std::vector<BlockId> blocks;
  bool in_step = false;
  bool handoff_open = false;                 // a remote party may read or write the blocks
  EndReason pending_end = EndReason::kNone;  // takes effect at StepDone

  int32_t remaining() const { return static_cast<int32_t>(spec.tokens.size()) - computed; }
};

namespace {

template <typename Queue, typename Sequence>
void insert_by_arrival(Queue& queue, Sequence* sequence) {
  const auto later = [](const Sequence* a, const Sequence* b) { return a->arrival < b->arrival; };
  queue.insert(std::upper_bound(queue.begin(), queue.end(), sequence, later), sequence);
}

}  // namespace

BatchScheduler::BatchScheduler(const BatchConfig& config) : config_(config), pool_(config.pool_blocks) {
  CHECK_GT(config.block_tokens, 0);
  CHECK_GT(config.sequences_max, 0);
  CHECK_GE(config.batch_tokens_max, config.sequences_max);  // every decoding sequence has a row in each step
  CHECK_GE(config.waiting_max, 1);
  const int64_t pool_tokens = int64_t{config.pool_blocks} * config.block_tokens;
  const int64_t wanted = config.context_max > 0 ? config.context_max : pool_tokens;
  context_max_ = static_cast<int32_t>(std::min(wanted, pool_tokens));
  slices_.reserve(static_cast<size_t>(config.sequences_max));
  running_.reserve(static_cast<size_t>(config.sequences_max));
}

BatchScheduler::~BatchScheduler() = default;

const BatchActions& BatchScheduler::step(TimePoint now, const BatchEvent& event) {
  now_ = now;
  actions_.clear();
  std::visit([this](const auto& e) { handle(e); }, event);
  return actions_;
}

// ---- Forming a step ---------------------------------------------------------------------------------------

void BatchScheduler::handle(const Schedule&) {
  if (in_flight_) return;
  slices_.clear();
  step_tokens_ = 0;
  slice_decodes();
  slice_prefills();
  admit_waiting();
  if (slices_.empty()) return;
  in_flight_ = true;
  const auto samples =
      std::count_if(slices_.begin(), slices_.end(), [](const Slice& s) { return s.wants_sample; });
  actions_.emplace_back(RunStep{slices_, step_tokens_, static_cast<int32_t>(samples)});
}

void BatchScheduler::slice_decodes() {
  for (size_t i = 0; i < running_.size();) {
    Sequence& sequence = *running_[i];
    if (sequence.remaining() == 1 && make_room_for(sequence)) add_slice(sequence);
    // Whoever was preempted stood at or behind i, never before it.
    if (i < running_.size() && running_[i] == &sequence) ++i;
  }
}

void BatchScheduler::slice_prefills() {
  for (Sequence* sequence : running_) {
    if (step_tokens_ >= config_.batch_tokens_max) return;
    if (sequence->remaining() > 1) add_slice(*sequence);
  }
}

// In arrival order, and only while one block of growth is left for everybody who runs: otherwise the next
// decode step would preempt what was just admitted.
void BatchScheduler::admit_waiting() {
  while (!waiting_.empty() && step_tokens_ < config_.batch_tokens_max) {
    const auto running = static_cast<int32_t>(running_.size());
    if (running + reserved_ >= config_.sequences_max) return;
    Sequence& sequence = *waiting_.front();
    const int32_t needed = blocks_for(sequence.spec.tokens.size());
    if (needed + running > pool_.free_count()) return;
    CHECK(pool_.allocate(needed, BlockState::kHeld, sequence.blocks));
    waiting_.erase(waiting_.begin());
    waiting_blocks_ -= needed;
    sequence.phase = Phase::kRunning;
    insert_by_arrival(running_, &sequence);
    add_slice(sequence);
  }
}

void BatchScheduler::add_slice(Sequence& sequence) {
  const int32_t remaining = sequence.remaining();
  const int32_t count = std::min(remaining, config_.batch_tokens_max - step_tokens_);
  CHECK_GT(count, 0);
  Slice slice{sequence.spec.key, sequence.computed, count, count == remaining, false};
  const bool due = count == remaining || remaining <= config_.reserve_lead_tokens;
  if (sequence.kind == SequenceKind::kPrefill && !sequence.handoff_open && due) {
    slice.reserve_now = true;
    sequence.handoff_open = true;
  }
  sequence.in_step = true;
  step_tokens_ += count;
  slices_.push_back(slice);
}

// True when the sequence has blocks for all its tokens. Preempts later arrivals for it, at last the sequence
// itself; only the oldest keeps what it has and waits for leased or quarantined blocks to come back.
bool BatchScheduler::make_room_for(Sequence& sequence) {
  const int32_t needed =
      blocks_for(sequence.spec.tokens.size()) - static_cast<int32_t>(sequence.blocks.size());
  while (needed > 0 && !pool_.allocate(needed, BlockState::kHeld, sequence.blocks)) {
    Sequence* victim = preemption_victim();
    if (victim == nullptr) return false;
    if (victim == &sequence && running_.front() == &sequence) return false;
    CHECK_GE(victim->arrival, sequence.arrival);
    preempt(*victim);
    if (victim == &sequence) return false;
  }
  return true;
}

BatchScheduler::Sequence* BatchScheduler::preemption_victim() const {
  for (auto it = running_.rbegin(); it != running_.rend(); ++it)
    if (!(*it)->handoff_open) return *it;
  return nullptr;
}

void BatchScheduler::preempt(Sequence& sequence) {
  CHECK(!sequence.in_step);
  actions_.emplace_back(Preempted{sequence.spec.key, static_cast<int32_t>(sequence.blocks.size())});
  leave_queues(sequence);
  pool_.move(sequence.blocks, BlockState::kHeld, BlockState::kFree);
  sequence.blocks.clear();
  sequence.computed = 0;
  if (planted(Canary::kSkipAfterPreemption)) sequence.spec.tokens.push_back(0);
  sequence.phase = Phase::kWaiting;
  waiting_blocks_ += blocks_for(sequence.spec.tokens.size());
  insert_by_arrival(waiting_, &sequence);
}

// ---- What a step gave -------------------------------------------------------------------------------------

void BatchScheduler::handle(const StepDone& event) {
  CHECK(in_flight_);
  in_flight_ = false;
  size_t result = 0;
  for (const Slice& slice : slices_) {
    Sequence* sequence = find(slice.key);
    CHECK(sequence != nullptr && sequence->in_step);
    sequence->in_step = false;
    sequence->computed += slice.token_count;
    const auto index = static_cast<int32_t>(result);
    if (slice.wants_sample) {
      CHECK_LT(result, event.results.size());
      CHECK_EQ(event.results[result].key, slice.key);
      ++result;
    }
    if (sequence->pending_end != EndReason::kNone) {
      end(*sequence, sequence->pending_end);
    } else if (slice.wants_sample) {
      const SliceResult& sampled = event.results[static_cast<size_t>(index)];
      if (sampled.failed)
        end(*sequence, EndReason::kFailed);
      else
        accept_token(*sequence, sampled.token, index);
    }
  }
  CHECK_EQ(result, event.results.size());
}

void BatchScheduler::accept_token(Sequence& sequence, TokenId token, int32_t result_index) {
  const auto position = static_cast<int32_t>(sequence.spec.tokens.size());
  sequence.spec.tokens.push_back(token);
  const EndReason reason = judge(sequence);
  actions_.emplace_back(Emit{sequence.spec.key, position, token, result_index, reason});
  if (reason != EndReason::kNone) {
    end(sequence, reason);
  } else if (sequence.kind == SequenceKind::kPrefill) {
    CHECK(sequence.handoff_open);
    leave_queues(sequence);
    sequence.phase = Phase::kHandoff;
    pool_.move(sequence.blocks, BlockState::kHeld, BlockState::kLeased);
    actions_.emplace_back(HandoffReady{sequence.spec.key, position, token});
  }
}

// Whether the token just appended is the sequence's last.
EndReason BatchScheduler::judge(const Sequence& sequence) const {
  const SequenceSpec& spec = sequence.spec;
  const auto& stops = spec.stop_ids;
  if (!spec.ignore_eos && std::find(stops.begin(), stops.end(), spec.tokens.back()) != stops.end())
    return EndReason::kStop;
  const auto length = static_cast<int32_t>(spec.tokens.size());
  if (length - spec.prompt_tokens >= spec.tokens_max || length >= context_max_) return EndReason::kLength;
  return EndReason::kNone;
}

// ---- Arrivals ---------------------------------------------------------------------------------------------

void BatchScheduler::handle(const Add& event) {
  CHECK(event.kind != SequenceKind::kDecode);  // those come by Reserve
  if (const auto reason = why_refused(event.spec)) return refuse(event.spec, *reason);
  if (static_cast<int32_t>(waiting_.size()) >= config_.waiting_max)
    return refuse(event.spec, RefuseReason::kTooManySequences);
  Sequence& sequence = insert(event.kind, event.spec, Phase::kWaiting);
  waiting_blocks_ += blocks_for(sequence.spec.tokens.size());
  insert_by_arrival(waiting_, &sequence);
}

// Those who wait here, preempted ones among them, come first: their blocks are not given away.
void BatchScheduler::handle(const Reserve& event) {
  if (const auto reason = why_refused(event.spec)) return refuse(event.spec, *reason);
  const auto running = static_cast<int32_t>(running_.size());
  if (running + reserved_ >= config_.sequences_max)
    return refuse(event.spec, RefuseReason::kTooManySequences);
  const int32_t needed = blocks_for(event.spec.tokens.size());
  // The headroom is for growth of what runs or will run; with nothing else here there is nothing to protect.
  if (needed + running + reserved_ + waiting_blocks_ > pool_.free_count())
    return refuse(event.spec, RefuseReason::kNoBlocks);
  Sequence& sequence = insert(SequenceKind::kDecode, event.spec, Phase::kReserved);
  CHECK(pool_.allocate(needed, BlockState::kLeased, sequence.blocks));
  sequence.handoff_open = true;
  ++reserved_;
  actions_.emplace_back(ReserveGranted{sequence.spec.key, sequence.blocks});
}

std::optional<RefuseReason> BatchScheduler::why_refused(const SequenceSpec& spec) const {
  const auto length = static_cast<int32_t>(spec.tokens.size());
  if (spec.tokens.empty() || spec.prompt_tokens < 1 || spec.prompt_tokens > length || spec.tokens_max < 1 ||
      length - spec.prompt_tokens >= spec.tokens_max)
    return RefuseReason::kInvalid;
  if (length >= context_max_) return RefuseReason::kTooLong;  // no room for one more token
  const auto same_or_newer = sequences_.lower_bound(spec.key);
  if (same_or_newer != sequences_.end() && same_or_newer->first.sequence == spec.key.sequence)
    return same_or_newer->first.epoch == spec.key.epoch ? RefuseReason::kDuplicate
                                                        : RefuseReason::kStaleEpoch;
  return std::nullopt;
}

BatchScheduler::Sequence& BatchScheduler::insert(SequenceKind kind, const SequenceSpec& spec, Phase phase) {
  auto sequence = std::make_unique<Sequence>();
  sequence->spec = spec;
  sequence->kind = kind;
  sequence->phase = phase;
  sequence->arrival = ++arrivals_;
  sequence->arrived = now_;
  return *(sequences_[spec.key] = std::move(sequence));
}

void BatchScheduler::refuse(const SequenceSpec& spec, RefuseReason reason) {
  actions_.emplace_back(Refused{spec.key, reason, blocks_for(spec.tokens.size()), pool_.free_count()});
}

// ---- Handoffs and ends ------------------------------------------------------------------------------------

void BatchScheduler::handle(const KvCommitted& event) {
  Sequence* sequence = find(event.key);
  if (sequence == nullptr) return;
  if (sequence->phase == Phase::kQuarantined) return free_and_forget(*sequence);
  if (sequence->phase != Phase::kReserved) return;  // repeated COMMIT
  pool_.move(sequence->blocks, BlockState::kLeased, BlockState::kHeld);
  leave_queues(*sequence);
  sequence->handoff_open = false;
  sequence->phase = Phase::kRunning;
  sequence->computed = static_cast<int32_t>(sequence->spec.tokens.size());
  sequence->spec.tokens.push_back(event.first_token);
  insert_by_arrival(running_, sequence);
  // The prefill node tells the router about the first token, so there is no Emit. One that ends the sequence
  // is not handed off; should it be, nothing runs on.
  if (const EndReason reason = judge(*sequence); reason != EndReason::kNone) end(*sequence, reason);
}

void BatchScheduler::handle(const HandoffEnded& event) {
  Sequence* sequence = find(event.key);
  if (sequence == nullptr || !sequence->handoff_open || planted(Canary::kIgnoreHandoffEnded)) return;
  if (sequence->phase == Phase::kQuarantined) return free_and_forget(*sequence);
  sequence->handoff_open = false;
  const bool handed_off = event.committed && sequence->phase == Phase::kHandoff;
  const EndReason reason = handed_off ? EndReason::kHandedOff : EndReason::kHandoffFailed;
  if (!sequence->in_step) return end(*sequence, reason);
  if (sequence->pending_end == EndReason::kNone) sequence->pending_end = reason;
}

void BatchScheduler::handle(const Abort& event) {
  Sequence* sequence = find(event.key);
  if (sequence == nullptr || sequence->phase == Phase::kQuarantined) return;
  if (sequence->in_step)
    sequence->pending_end = EndReason::kAborted;
  else
    end(*sequence, EndReason::kAborted);
}

void BatchScheduler::end(Sequence& sequence, EndReason reason) {
  const bool leased = sequence.phase == Phase::kReserved || sequence.phase == Phase::kHandoff;
  leave_queues(sequence);
  const Canary bug =
      sequence.kind == SequenceKind::kPrefill ? Canary::kFreeSourceOnAbort : Canary::kFreeLeasedOnAbort;
  const bool quarantine = sequence.handoff_open && !planted(bug);
  actions_.emplace_back(Ended{sequence.spec.key, reason, quarantine});
  if (!sequence.blocks.empty())
    pool_.move(sequence.blocks, leased ? BlockState::kLeased : BlockState::kHeld, BlockState::kQuarantined);
  sequence.phase = Phase::kQuarantined;
  if (!quarantine) free_and_forget(sequence);
}

void BatchScheduler::free_and_forget(Sequence& sequence) {
  const SequenceKey key = sequence.spec.key;
  pool_.move(sequence.blocks, BlockState::kQuarantined, BlockState::kFree);
  actions_.emplace_back(Freed{key});
  sequences_.erase(key);
}

void BatchScheduler::leave_queues(Sequence& sequence) {
  const auto erase_from = [&](Queue& queue) {
    queue.erase(std::find(queue.begin(), queue.end(), &sequence));
  };
  if (sequence.phase == Phase::kRunning) erase_from(running_);
  if (sequence.phase == Phase::kReserved) --reserved_;
  if (sequence.phase == Phase::kWaiting) {
    erase_from(waiting_);
    waiting_blocks_ -= blocks_for(sequence.spec.tokens.size());
  }
}

// ---- Views ------------------------------------------------------------------------------------------------

BatchScheduler::Sequence* BatchScheduler::find(SequenceKey key) const {
  const auto it = sequences_.find(key);
  return it == sequences_.end() ? nullptr : it->second.get();
}

int32_t BatchScheduler::blocks_for(size_t tokens) const {
  const auto block_tokens = static_cast<size_t>(config_.block_tokens);
  return static_cast<int32_t>((tokens + block_tokens - 1) / block_tokens);
}

std::span<const BlockId> BatchScheduler::blocks_of(SequenceKey key) const {
  const Sequence* sequence = find(key);
  return sequence == nullptr ? std::span<const BlockId>{} : std::span<const BlockId>(sequence->blocks);
}

std::span<const TokenId> BatchScheduler::tokens_of(SequenceKey key) const {
  const Sequence* sequence = find(key);
  return sequence == nullptr ? std::span<const TokenId>{} : std::span<const TokenId>(sequence->spec.tokens);
}

BatchLoad BatchScheduler::load() const {
  BatchLoad load;
  load.blocks_free = pool_.free_count();
  load.blocks_held = pool_.count(BlockState::kHeld);
  load.blocks_leased = pool_.count(BlockState::kLeased);
  load.blocks_quarantined = pool_.count(BlockState::kQuarantined);
  load.running = static_cast<int32_t>(running_.size());
  load.reserved = reserved_;
  load.waiting = static_cast<int32_t>(waiting_.size());
  for (const Sequence* sequence : waiting_) load.waiting_tokens += sequence->remaining();
  for (const Sequence* sequence : running_)
    if (sequence->remaining() > 1) load.waiting_tokens += sequence->remaining();
  if (!waiting_.empty()) load.oldest_waiting = waiting_.front()->arrived;
  return load;
}

void BatchScheduler::check_invariants() const {
  pool_.check_invariants();
  std::vector<bool> owned(static_cast<size_t>(pool_.size()));
  int32_t owned_count = 0, reserved = 0, waiting_blocks = 0;
  for (const auto& [key, sequence] : sequences_) {
    CHECK_EQ(key, sequence->spec.key);
    const Phase phase = sequence->phase;
    const BlockState expected = phase == Phase::kRunning       ? BlockState::kHeld
                                : phase == Phase::kQuarantined ? BlockState::kQuarantined
                                                               : BlockState::kLeased;
    for (const BlockId block : sequence->blocks) {
      CHECK(!owned[block.value()]);
      owned[block.value()] = true;
      ++owned_count;
      CHECK(pool_.state(block) == expected);
    }
    if (phase == Phase::kWaiting) CHECK(sequence->blocks.empty() && !sequence->handoff_open);
    if (phase == Phase::kWaiting) waiting_blocks += blocks_for(sequence->spec.tokens.size());
    if (phase == Phase::kReserved) ++reserved;
    if (sequence->in_step) CHECK(in_flight_ && phase == Phase::kRunning);
    CHECK_LE(blocks_for(static_cast<size_t>(sequence->computed)),
             static_cast<int32_t>(sequence->blocks.size()));
    CHECK_LE(static_cast<int32_t>(sequence->spec.tokens.size()), context_max_);
  }
  CHECK_EQ(owned_count, pool_.size() - pool_.free_count());
  CHECK_EQ(reserved, reserved_);
  CHECK_EQ(waiting_blocks, waiting_blocks_);
  const auto by_arrival = [](const Sequence* a, const Sequence* b) { return a->arrival < b->arrival; };
  CHECK(std::is_sorted(running_.begin(), running_.end(), by_arrival));
  CHECK(std::is_sorted(waiting_.begin(), waiting_.end(), by_arrival));
  CHECK_LE(static_cast<int32_t>(running_.size()) + reserved_, config_.sequences_max);
}

}  // namespace penstock::scheduler
