// The queue, starting and replaying attempts, and the ends of sequences.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "scheduler/canary.h"
#include "scheduler/cluster/cluster_state.h"

namespace penstock::scheduler {

void ClusterScheduler::State::handle(const Arrival& event) {
  CHECK_GE(event.prompt_tokens, 1);
  CHECK_GE(event.tokens_max, 1);
  const auto [it, fresh] = sequences.emplace(event.sequence, ClusterSequence{});
  CHECK(fresh);
  ++stats.arrivals;
  ClusterSequence& sequence = it->second;
  sequence.id = event.sequence;
  sequence.order = ++orders;
  sequence.prompt_tokens = sequence.next_position = event.prompt_tokens;
  sequence.tokens_max = event.tokens_max;
  sequence.deadline = event.deadline;
  if (shutting_down) return reject(sequence, RejectReason::kShuttingDown);
  if (const auto reason = why_unserviceable(table, request_of(sequence))) return reject(sequence, *reason);
  if (queue.empty() && try_start(sequence)) return;
  if (queued_new >= policy.queue_len_max) return reject(sequence, RejectReason::kQueueFull);
  if (sequence.deadline != TimePoint::max() &&
      now + Duration::from_seconds(projected_wait_s()) > sequence.deadline)
    return reject(sequence, RejectReason::kDeadline);
  enqueue(sequence);
}

// ---- Queue ------------------------------------------------------------------------------------------------

// Strictly in order: a large request is not overtaken for ever by small ones.
void ClusterScheduler::State::pump() {
  pump_due = false;
  while (!queue.empty()) {
    ClusterSequence& sequence = sequences.at(queue.begin()->second);
    if (!try_start(sequence)) return;
  }
}

void ClusterScheduler::State::enqueue(ClusterSequence& sequence) {
  const bool is_new = sequence.epoch == Epoch();
  sequence.queued = true;
  queue.emplace(std::pair(is_new, sequence.order), sequence.id);
  if (is_new) ++queued_new;
  queued_tokens += sequence.length();
  sequence.unserviceable_since = why_unserviceable(table, request_of(sequence)) ? now : TimePoint::max();
  fire_timer(sequence);
}

void ClusterScheduler::State::leave_queue(ClusterSequence& sequence) {
  if (!sequence.queued) return;
  const bool is_new = sequence.epoch == Epoch();
  CHECK_EQ(queue.erase(std::pair(is_new, sequence.order)), 1u);
  if (is_new) --queued_new;
  queued_tokens -= sequence.length();
  sequence.queued = false;
  sequence.unserviceable_since = TimePoint::max();
}

// The set of nodes has changed: who waits may have lost or found every place it could run.
void ClusterScheduler::State::refresh_serviceable() {
  for (const auto& [key, id] : queue) {
    ClusterSequence& sequence = sequences.at(id);
    const bool serviceable = !why_unserviceable(table, request_of(sequence)).has_value();
    if (serviceable) {
      sequence.unserviceable_since = TimePoint::max();
    } else if (sequence.unserviceable_since == TimePoint::max()) {
      sequence.unserviceable_since = now;
      arm(sequence, now + policy.replay_wait_max);
    }
  }
  pump_due = true;
}

bool ClusterScheduler::State::try_start(ClusterSequence& sequence) {
  const auto placement = choose_placement(table, request_of(sequence), rng);
  if (!placement) return false;
  leave_queue(sequence);
  sequence.epoch = Epoch(sequence.epoch.value() + 1);
  ++sequence.attempts;
  charge(sequence, *placement);
  sequence.progress_deadline =
      now + policy.progress_wait_max + Duration::from_seconds(4 * placement->first_token_s);
  arm(sequence, sequence.progress_deadline);
  const int32_t tokens = sequence.start_tokens;
  if (placement->prefill == NodeId())
    actions.emplace_back(StartColocated{sequence.id, sequence.epoch, placement->decode, tokens});
  else
    actions.emplace_back(StartPrefill{sequence.id, sequence.epoch, TransferId(next_transfer++),
                                      placement->prefill, placement->decode, tokens});
  return true;
}

PlacementRequest ClusterScheduler::State::request_of(const ClusterSequence& sequence) const {
  return {sequence.length(), output_expected(sequence), policy.disaggregate};
}

int32_t ClusterScheduler::State::output_expected(const ClusterSequence& sequence) const {
  const int32_t left = sequence.prompt_tokens + sequence.tokens_max - sequence.next_position;
  return std::min(left, static_cast<int32_t>(output_mean) + 1);
}

// Work queued here over the rate at which all nodes together do it.
double ClusterScheduler::State::projected_wait_s() const {
  const auto prefill_tokens = static_cast<double>(queued_tokens);
  const double output_tokens = static_cast<double>(queue.size()) * output_mean;
  double prefill_rate = 0, output_rate = 0;
  const bool split = policy.disaggregate != Disaggregate::kNever;
  for (const auto& [id, node] : table.nodes()) {
    if (node.draining) continue;
    if (node.role == NodeRole::kDecode) output_rate += node.capacity.decode_bmax_tokens_per_s;
    if ((node.role == NodeRole::kPrefill) == split) prefill_rate += node.capacity.prefill_tokens_per_s;
  }
  const double prefill_s = prefill_rate > 0 ? prefill_tokens / prefill_rate : 0;
  const double output_s = output_rate > 0 ? output_tokens / output_rate : 0;
  return std::max(prefill_s, output_s);
}

int32_t ClusterScheduler::State::retry_after_s() const {
  constexpr double kLongest = 60;
  return static_cast<int32_t>(std::clamp(std::ceil(projected_wait_s()), 1.0, kLongest));
}

// ---- Replays and ends -------------------------------------------------------------------------------------

void ClusterScheduler::State::replay(ClusterSequence& sequence) {
  abort_attempt(sequence, AbortReason::kSuperseded);
  ++stats.replays;
  if (sequence.attempts >= policy.attempts_max)
    return fail(sequence, FailReason::kTooManyAttempts,
                "gave up after " + std::to_string(sequence.attempts) + " attempts");
  if (planted(Canary::kLoseQueuedReplay)) {
    try_start(sequence);
    return;
  }
  enqueue(sequence);
  pump_due = true;
}

// Tells the nodes that still work on the attempt, takes it off their accounts, and forgets what it held back.
void ClusterScheduler::State::abort_attempt(ClusterSequence& sequence, AbortReason reason) {
  const auto tell = [&](NodeId node) {
    if (table.find(node) != nullptr && !planted(Canary::kForgetAborts))
      actions.emplace_back(AbortOn{node, sequence.id, sequence.epoch, reason});
  };
  if (sequence.prefill_charged) tell(sequence.prefill);
  tell(sequence.decode);
  release_prefill(sequence);
  release_decode(sequence);
  sequence.prefill = NodeId();
  sequence.held.clear();
  sequence.gap_since = TimePoint::max();
}

void ClusterScheduler::State::finish(ClusterSequence& sequence, EndReason reason) {
  actions.emplace_back(Finish{sequence.id, reason});
  ++stats.finished;
  if (reason != EndReason::kAborted)
    output_mean += 0.05 * (sequence.next_position - sequence.prompt_tokens - output_mean);
  forget(sequence);
}

void ClusterScheduler::State::reject(ClusterSequence& sequence, RejectReason reason) {
  const bool busy = reason == RejectReason::kQueueFull || reason == RejectReason::kDeadline;
  const int32_t status = reason == RejectReason::kTooLong ? 400 : busy ? 429 : 503;
  actions.emplace_back(Reject{sequence.id, reason, status, status == 400 ? 0 : retry_after_s()});
  ++stats.rejected;
  forget(sequence);
}

void ClusterScheduler::State::fail(ClusterSequence& sequence, FailReason reason, std::string message) {
  actions.emplace_back(Fail{sequence.id, reason, std::move(message)});
  ++stats.failed;
  forget(sequence);
}

void ClusterScheduler::State::forget(ClusterSequence& sequence) {
  leave_queue(sequence);
  release_prefill(sequence);
  release_decode(sequence);
  timers.erase({sequence.timer, sequence.id});
  sequences.erase(sequence.id);
  pump_due = true;
}

// One timer a sequence, moved forward only: a deadline that moved back is seen when the timer fires.
void ClusterScheduler::State::arm(ClusterSequence& sequence, TimePoint at) {
  if (at >= sequence.timer) return;
  timers.erase({sequence.timer, sequence.id});
  sequence.timer = at;
  timers.emplace(at, sequence.id);
}

}  // namespace penstock::scheduler
