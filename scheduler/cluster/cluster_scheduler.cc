#include "scheduler/cluster/cluster_scheduler.h"

#include <algorithm>

#include "base/check.h"
#include "scheduler/canary.h"
#include "scheduler/cluster/cluster_state.h"

namespace penstock::scheduler {

ClusterScheduler::ClusterScheduler(const ClusterPolicy& policy) : state_(std::make_unique<State>(policy)) {
  CHECK_GE(policy.queue_len_max, 0);
  CHECK_GE(policy.attempts_max, 1);
  CHECK_GE(policy.reorder_max, 1);
}

ClusterScheduler::~ClusterScheduler() = default;

const ClusterActions& ClusterScheduler::step(TimePoint now, const ClusterEvent& event) {
  State& state = *state_;
  CHECK_GE(now, state.now);
  state.now = now;
  state.actions.clear();
  std::visit([&state](const auto& e) { state.handle(e); }, event);
  if (state.pump_due) state.pump();
  state.report_drained();
  return state.actions;
}

TimePoint ClusterScheduler::next_wakeup() const {
  return state_->timers.empty() ? TimePoint::max() : state_->timers.begin()->first;
}

ClusterStats ClusterScheduler::stats() const {
  ClusterStats stats = state_->stats;
  stats.nodes = static_cast<int32_t>(state_->table.nodes().size());
  stats.queued = static_cast<int32_t>(state_->queue.size());
  stats.started = static_cast<int32_t>(state_->sequences.size()) - stats.queued;
  return stats;
}

bool ClusterScheduler::idle() const { return state_->sequences.empty(); }

void ClusterScheduler::check_invariants() const { state_->check_accounts(); }

// ---- Tokens -----------------------------------------------------------------------------------------------

void ClusterScheduler::State::handle(const TokenArrived& event) {
  ClusterSequence* sequence =
      find_current(event.node, event.sequence, event.epoch, event.end == EndReason::kNone);
  if (sequence == nullptr) {
    ++stats.tokens_dropped;
    return;
  }
  token_of_attempt(*sequence, event);
}

void ClusterScheduler::State::token_of_attempt(ClusterSequence& sequence, const TokenArrived& event) {
  if (event.node == sequence.decode && sequence.prefill != NodeId() && !sequence.handed_off) {
    // D decodes, so COMMIT reached it, whether or not P has said so yet.
    sequence.handed_off = true;
    release_prefill(sequence);
  }
  if (!sequence.first_token_seen) first_token(sequence);
  const int32_t last = sequence.prompt_tokens + sequence.tokens_max - 1;
  const bool repeated = event.position < sequence.next_position && !planted(Canary::kForgetDeduplication);
  if (repeated || event.position < sequence.start_tokens || event.position > last) {
    ++stats.tokens_dropped;
    return;
  }
  sequence.progress_deadline = now + policy.progress_wait_max;
  if (event.position > sequence.next_position && !planted(Canary::kIgnoreGap))
    return hold(sequence, {event.position, event.token, event.end});
  if (planted(Canary::kForgetDeduplication) || planted(Canary::kIgnoreGap))
    sequence.next_position = event.position;
  if (!deliver(sequence, event.token, event.end)) deliver_held(sequence);
}

// P's first token and D's next ones take different ways, so D's may come first.
void ClusterScheduler::State::hold(ClusterSequence& sequence, const HeldToken& token) {
  const auto by_position = [](const HeldToken& a, const HeldToken& b) { return a.position < b.position; };
  const auto at = std::lower_bound(sequence.held.begin(), sequence.held.end(), token, by_position);
  if (at != sequence.held.end() && at->position == token.position) {
    ++stats.tokens_dropped;
    return;
  }
  if (static_cast<int32_t>(sequence.held.size()) >= policy.reorder_max) return replay(sequence);
  sequence.held.insert(at, token);
  if (sequence.gap_since == TimePoint::max()) {
    sequence.gap_since = now;
    arm(sequence, now + policy.gap_wait_max);
  }
}

void ClusterScheduler::State::deliver_held(ClusterSequence& sequence) {
  size_t count = 0;
  while (count < sequence.held.size() && sequence.held[count].position == sequence.next_position) {
    const HeldToken token = sequence.held[count++];
    if (deliver(sequence, token.token, token.end)) return;
  }
  sequence.held.erase(sequence.held.begin(), sequence.held.begin() + static_cast<int64_t>(count));
  if (count > 0 || sequence.held.empty()) sequence.gap_since = sequence.held.empty() ? TimePoint::max() : now;
}

bool ClusterScheduler::State::deliver(ClusterSequence& sequence, TokenId token, EndReason end) {
  actions.emplace_back(Deliver{sequence.id, sequence.next_position, token});
  ++stats.tokens_delivered;
  ++sequence.next_position;
  grow(sequence);
  const bool used_up = sequence.next_position - sequence.prompt_tokens >= sequence.tokens_max;
  if (end == EndReason::kNone && !used_up) return false;
  if (end == EndReason::kNone)
    abort_attempt(sequence, AbortReason::kFinished);  // the node overlooked its limit
  else if (sequence.prefill != NodeId() && sequence.decode != NodeId() && !sequence.handed_off)
    actions.emplace_back(AbortOn{sequence.decode, sequence.id, sequence.epoch, AbortReason::kFinished});
  finish(sequence, end == EndReason::kStop ? EndReason::kStop : EndReason::kLength);
  return true;
}

// ---- Other reports of an attempt --------------------------------------------------------------------------

void ClusterScheduler::State::handle(const HandoffDone& event) {
  ClusterSequence* sequence = find_current(event.node, event.sequence, event.epoch, false);
  if (sequence == nullptr) return;
  sequence->handed_off = true;
  sequence->progress_deadline = now + policy.progress_wait_max;
  if (event.bytes > 0 && event.transfer.us > 0)
    table.measured(event.node, sequence->decode, static_cast<double>(event.bytes) / event.transfer.seconds());
  release_prefill(*sequence);
  pump_due = true;
}

void ClusterScheduler::State::handle(const ReserveRefused& event) {
  constexpr int32_t kRefusalsMax = 64;
  ClusterSequence* sequence = find_current(event.node, event.sequence, event.epoch, false);
  if (sequence == nullptr) return;
  // Our account was too hopeful: wait for D's next report rather than ask again.
  if (ClusterNode* decode = table.find(sequence->decode)) decode->full = true;
  if (++sequence->refusals <= kRefusalsMax) --sequence->attempts;
  replay(*sequence);
}

void ClusterScheduler::State::handle(const SequenceFailed& event) {
  ClusterSequence* sequence = find_current(event.node, event.sequence, event.epoch, false);
  if (sequence == nullptr) return;
  if (event.node == sequence->prefill && sequence->handed_off) return release_prefill(*sequence);
  if (event.retryable) return replay(*sequence);
  abort_attempt(*sequence, AbortReason::kSuperseded);
  fail(*sequence, FailReason::kNotRetryable, event.message);
}

void ClusterScheduler::State::handle(const ClientGone& event) {
  ClusterSequence* sequence = find(event.sequence);
  if (sequence == nullptr) {
    if (planted(Canary::kDoubleFinish)) actions.emplace_back(Finish{event.sequence, EndReason::kAborted});
    return;
  }
  abort_attempt(*sequence, AbortReason::kClientGone);
  finish(*sequence, EndReason::kAborted);
}

void ClusterScheduler::State::handle(const StopFound& event) {
  ClusterSequence* sequence = find(event.sequence);
  if (sequence == nullptr) return;
  abort_attempt(*sequence, AbortReason::kStopFound);
  finish(*sequence, EndReason::kStop);
}

ClusterSequence* ClusterScheduler::State::find(SequenceId id) {
  const auto it = sequences.find(id);
  return it == sequences.end() ? nullptr : &it->second;
}

ClusterSequence* ClusterScheduler::State::find_current(NodeId node, SequenceId id, Epoch epoch,
                                                       bool node_still_works) {
  ClusterSequence* sequence = find(id);
  const bool same_epoch =
      sequence != nullptr && (sequence->epoch == epoch || planted(Canary::kAcceptStaleEpoch));
  const bool has_node = same_epoch && (sequence->prefill == node || sequence->decode == node);
  if (has_node || (same_epoch && !sequence->queued && planted(Canary::kAcceptStaleEpoch))) return sequence;
  // A live node that still computes for nobody is told once more: its abort may have been lost.
  if (node_still_works && !same_epoch && table.find(node) != nullptr && !planted(Canary::kForgetAborts)) {
    const AbortReason reason = sequence == nullptr ? AbortReason::kFinished : AbortReason::kStale;
    actions.emplace_back(AbortOn{node, id, epoch, reason});
  }
  return nullptr;
}

// ---- Time -------------------------------------------------------------------------------------------------

void ClusterScheduler::State::handle(const Tick&) {
  while (!timers.empty() && timers.begin()->first <= now) {
    ClusterSequence& sequence = sequences.at(timers.begin()->second);
    timers.erase(timers.begin());
    sequence.timer = TimePoint::max();
    fire_timer(sequence);
  }
}

// Timers are lazy: moved deadlines are looked at here, and the timer is armed again for the earliest.
void ClusterScheduler::State::fire_timer(ClusterSequence& sequence) {
  const auto after = [](TimePoint since, Duration wait) {
    return since == TimePoint::max() ? TimePoint::max() : since + wait;
  };
  if (!sequence.queued) {
    const TimePoint gap = after(sequence.gap_since, policy.gap_wait_max);
    const TimePoint due = std::min(gap, sequence.progress_deadline);
    return due <= now ? replay(sequence) : arm(sequence, due);
  }
  const bool started = sequence.epoch != Epoch();
  const TimePoint no_pair = after(sequence.unserviceable_since, policy.replay_wait_max);
  if (no_pair <= now) {
    const auto reason = why_unserviceable(table, request_of(sequence));
    if (started)
      return fail(sequence, FailReason::kNoOtherPair, "no other pair of nodes can take the request");
    return reject(sequence, reason.value_or(RejectReason::kNoPair));
  }
  if (!started && sequence.deadline <= now) return reject(sequence, RejectReason::kDeadline);
  arm(sequence, started ? no_pair : std::min(no_pair, sequence.deadline));
}

}  // namespace penstock::scheduler
