// What clients and the end of a run must look like: the invariants that span rooms.
#include <algorithm>

#include "sim/world.h"

namespace penstock::sim {

using namespace scheduler;  // NOLINT: the vocabulary of this file is the scheduler's

namespace {
constexpr Duration kGoneWithin = Duration::from_ms(1000);
}

void World::violate(int invariant, std::string what) {
  if (!report_.violation) report_.violation = Violation{invariant, std::move(what), now()};
}

void World::carry_out(const Deliver& deliver) {
  Client& client = clients_.at(deliver.sequence);
  const auto id = "request " + std::to_string(deliver.sequence.value());
  if (client.ends > 0) return violate(1, id + ": a token after the end");
  if (deliver.position != client.next_position)
    return violate(2, id + ": position " + std::to_string(deliver.position) + " instead of " +
                          std::to_string(client.next_position));
  if (deliver.token != token_at(deliver.sequence, deliver.position))
    return violate(2, id + ": a wrong token at position " + std::to_string(deliver.position));
  ++client.next_position;
  if (deliver.position == client.plan.string_position && !client.string_found) {
    client.string_found = true;
    queue_.after(Duration{10}, [this, sequence = deliver.sequence] { step(StopFound{sequence}); });
  }
}

void World::check_end(SequenceId sequence, const char* how) {
  Client& client = clients_.at(sequence);
  if (++client.ends > 1)
    return violate(1, "request " + std::to_string(sequence.value()) + " ended twice, last: " + how);
  --open_;
  end_attempt(sequence);
}

// ---- Attempts ---------------------------------------------------------------------------------------------

void World::begin_attempt(SequenceKey key, const std::vector<NodeId>& nodes) {
  if (key.epoch <= attempts_[key.sequence].key.epoch) return violate(1, "an epoch was used twice");
  end_attempt(key.sequence);
  Attempt& attempt = attempts_[key.sequence];
  attempt.key = key;
  for (const NodeId id : nodes) {
    const Registration& registration = registrations_.at(id);
    attempt.processes.emplace_back(registration.node, registration.incarnation);
  }
}

void World::end_attempt(SequenceId sequence) {
  Attempt& attempt = attempts_[sequence];
  if (attempt.processes.empty() || messages_are_lost_) return;
  queue_.after(kGoneWithin, [this, attempt, since = now()] { check_gone(attempt, since); });
  attempt.processes.clear();
}

// An attempt that is over leaves no blocks behind for longer than a second, counted from when nothing
// disturbs it.
void World::check_gone(const Attempt& attempt, TimePoint since) {
  if (faults_active_ > 0 || last_fault_ > since) {
    queue_.after(kGoneWithin, [this, attempt, again = now()] { check_gone(attempt, again); });
    return;
  }
  for (const auto& [index, incarnation] : attempt.processes) {
    const SimNode& node = *nodes_[static_cast<size_t>(index)];
    if (!node.alive() || node.incarnation() != incarnation) continue;
    if (!node.batch().tokens_of(attempt.key).empty())
      return violate(7, "node " + std::to_string(index) + " still works for request " +
                            std::to_string(attempt.key.sequence.value()) +
                            " a second after its attempt ended");
  }
}

// ---- Ends -------------------------------------------------------------------------------------------------

void World::carry_out(const Finish& finish) {
  check_end(finish.sequence, "finished");
  const Client& client = clients_.at(finish.sequence);
  const RequestPlan& plan = client.plan;
  const int32_t last = client.next_position - 1;
  const bool stopped = last == plan.stop_position || (client.string_found && last >= plan.string_position);
  const bool used_up = client.next_position - plan.prompt_tokens == plan.tokens_max;
  const bool right = finish.reason == EndReason::kStop     ? stopped
                     : finish.reason == EndReason::kLength ? used_up
                                                           : client.gone;
  if (!right)
    violate(1, "request " + std::to_string(finish.sequence.value()) + " finished as " +
                   end_reason_name(finish.reason) + " at position " + std::to_string(last));
}

void World::carry_out(const Reject& reject) {
  check_end(reject.sequence, "rejected");
  const Client& client = clients_.at(reject.sequence);
  const auto id = "request " + std::to_string(reject.sequence.value());
  if (client.next_position != client.plan.prompt_tokens)
    return violate(1, id + " was rejected after tokens were delivered");
  if (reject.http_status != 400 && reject.retry_after_s < 1)
    return violate(1, id + ": a rejection without Retry-After");
  if (reject.reason == RejectReason::kDeadline && client.plan.deadline == TimePoint::max())
    return violate(1, id + " was rejected for a deadline it does not have");
}

void World::carry_out(const Fail& fail) {
  check_end(fail.sequence, "failed");
  const auto id = "request " + std::to_string(fail.sequence.value());
  if (fail.reason != FailReason::kNoOtherPair) return violate(7, id + " failed: " + fail.message);
  if (now() - last_pair_ < scenario_.policy.replay_wait_max)
    violate(7, id + " failed for want of a pair, but one was there");
}

// When a registered pair that is not draining could last be used, as the driver knows it.
void World::note_pairs() {
  if (pair_exists()) last_pair_ = now();
}

bool World::pair_exists() const {
  const auto usable = [this](NodeId id) {
    const Registration& registration = registrations_.at(id);
    return registration.accepted && !registration.draining;
  };
  if (scenario_.policy.disaggregate == Disaggregate::kAlways)
    return std::any_of(pairs_.begin(), pairs_.end(),
                       [&](const auto& pair) { return usable(pair.first) && usable(pair.second); });
  return std::any_of(registrations_.begin(), registrations_.end(), [&](const auto& entry) {
    return nodes_[static_cast<size_t>(entry.second.node)]->plan().role == NodeRole::kDecode &&
           usable(entry.first);
  });
}

// Everything has ended, every fault is over, every block is back.
bool World::done() const {
  if (open_ > 0 || faults_active_ > 0 || faults_left_ > 0) return false;
  return std::all_of(nodes_.begin(), nodes_.end(),
                     [](const auto& node) { return node->alive() && !node->paused() && node->quiet(); });
}

void World::check_quiet() {
  for (const auto& [id, client] : clients_)
    if (client.ends == 0) return violate(7, "request " + std::to_string(id.value()) + " never ended");
  for (const auto& node : nodes_)
    if (node->alive() && !node->quiet()) {
      const BatchLoad load = node->batch().load();
      return violate(3, "node " + std::to_string(node->index()) + " never got its blocks back: held " +
                            std::to_string(load.blocks_held) + ", leased " +
                            std::to_string(load.blocks_leased) + ", quarantined " +
                            std::to_string(load.blocks_quarantined));
    }
  violate(7, "the run did not come to rest");
}

}  // namespace penstock::sim
