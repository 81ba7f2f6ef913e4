#include "sim/node.h"

#include <algorithm>
#include <utility>

#include "sim/world.h"

namespace penstock::sim {

using namespace scheduler;  // NOLINT: the vocabulary of this file is the scheduler's

namespace {
constexpr Duration kRegisterRetry = Duration::from_ms(500);
}

SimNode::SimNode(World& world, int index, const NodePlan& plan) : world_(world), index_(index), plan_(plan) {
  MeasuredSpeeds speeds;
  speeds.prefill_toks = plan.prefill_tokens_per_s;
  speeds.decode_b1_toks = plan.decode_b1_tokens_per_s;
  speeds.decode_bmax_toks = plan.decode_bmax_tokens_per_s;
  speeds.decode_bmax = plan.batch.sequences_max;
  cost_ = CostModel::from_measured(speeds);
}

// ---- Process life -----------------------------------------------------------------------------------------

void SimNode::start_process() {
  alive_ = true;
  paused_ = false;
  ++incarnation_;
  id_ = NodeId();
  batch_ = std::make_unique<BatchScheduler>(plan_.batch);
  memory_.assign(static_cast<size_t>(plan_.batch.pool_blocks), SequenceKey{});
  register_until_accepted();
}

void SimNode::crash() {
  alive_ = false;
  backlog_.clear();
  running_.clear();
  senders_.clear();
  receivers_.clear();
  decode_node_of_.clear();
  committed_.clear();
  started_.clear();
  refused_.clear();
  frame_ = Frame();
}

void SimNode::resume() {
  paused_ = false;
  std::vector<std::function<void()>> backlog;
  backlog.swap(backlog_);
  for (auto& work : backlog) run(incarnation_, std::move(work));
}

void SimNode::run(uint32_t incarnation, std::function<void()> work) {
  if (!alive_ || incarnation != incarnation_) return;
  if (paused_) {
    backlog_.push_back(std::move(work));
    return;
  }
  work();
  step(Schedule{});
  flush_frame();
}

void SimNode::later(Duration delay, std::function<void()> work) {
  world_.queue().after(delay, [this, incarnation = incarnation_, work = std::move(work)]() mutable {
    run(incarnation, std::move(work));
  });
}

void SimNode::register_until_accepted() {
  if (id_ != NodeId()) return;
  world_.register_node(*this);
  later(kRegisterRetry, [this] { register_until_accepted(); });
}

void SimNode::on_reset(NodeId id) {
  if (id != id_) return;
  id_ = NodeId();
  frame_ = Frame();
  for (const SequenceKey key : std::set<SequenceKey>(started_)) step(Abort{key});
  std::vector<SequenceKey> reserved;
  for (const auto& [key, receiver] : receivers_) reserved.push_back(key);
  for (const SequenceKey key : committed_) reserved.push_back(key);
  for (const SequenceKey key : reserved) step(Abort{key});
  register_until_accepted();
}

void SimNode::on_heartbeat_due() {
  if (id_ == NodeId()) return;
  frame_.node = id_;
  frame_.load = batch_->load();
  world_.to_router(*this, std::exchange(frame_, Frame()));
}

void SimNode::flush_frame() {
  if (!frame_.tokens.empty() || !frame_.events.empty()) on_heartbeat_due();
  if (id_ == NodeId()) frame_ = Frame();
}

// ---- Work -------------------------------------------------------------------------------------------------

void SimNode::on_start(const StartMessage& start) {
  const SequenceKey key = start.spec.key;
  if (!started_.insert(key).second) return;
  if (start.kind == SequenceKind::kPrefill) decode_node_of_[key] = start.decode_node;
  step(Add{start.kind, start.spec});
  if (const auto refused = refused_.find(key); refused != refused_.end()) {
    refused_.erase(refused);
    report_failed(key);
  }
}

void SimNode::on_abort(SequenceKey key) {
  started_.insert(key);  // a Start that comes after its Abort is late
  step(Abort{key});
}

void SimNode::report_failed(SequenceKey key) {
  frame_.events.push_back(SequenceFailed{id_, key.sequence, key.epoch, true, "simulated failure"});
}

void SimNode::step(const BatchEvent& event) {
  const BatchActions actions = batch_->step(world_.now(), event);  // a copy: carrying out may step again
  batch_->check_invariants();
  for (const BatchAction& action : actions) std::visit([this](const auto& a) { carry_out(a); }, action);
}

void SimNode::carry_out(const RunStep& run) {
  running_.assign(run.slices.begin(), run.slices.end());
  int64_t decodes = 0, prefill_tokens = 0;
  for (const Slice& slice : running_) {
    if (slice.token_count == 1)
      ++decodes;
    else
      prefill_tokens += slice.token_count;
  }
  const double seconds = cost_.prefill_seconds(prefill_tokens) + cost_.decode_step_seconds(decodes);
  later(Duration::from_seconds(1e-4 + slow_device_ * seconds), [this] { finish_step(); });
  for (const Slice& slice : running_)
    if (slice.reserve_now) open_handoff(slice.key);
}

void SimNode::finish_step() {
  StepDone done;
  for (const Slice& slice : running_) {
    compute(slice);
    if (!slice.wants_sample) continue;
    const bool failed = std::exchange(fail_next_slice_, false);
    done.results.push_back(
        {slice.key, token_at(slice.key.sequence, slice.first_position + slice.token_count), failed});
  }
  const std::vector<Slice> slices = std::exchange(running_, {});
  step(done);
  for (const Slice& slice : slices) {
    const auto sender = senders_.find(slice.key);
    if (sender == senders_.end()) continue;
    sender->second.computed = slice.first_position + slice.token_count;
    post_writes(slice.key, sender->second);
  }
}

// What attention would read: every block of the context must be this sequence's own work, and every token fed
// must be the one that belongs there.
void SimNode::compute(const Slice& slice) {
  const auto tokens = batch_->tokens_of(slice.key);
  const auto blocks = batch_->blocks_of(slice.key);
  const int32_t block_tokens = plan_.batch.block_tokens;
  const int32_t end = slice.first_position + slice.token_count;
  if (end > static_cast<int32_t>(tokens.size()) ||
      (end + block_tokens - 1) / block_tokens > static_cast<int32_t>(blocks.size()))
    return world_.violate(3, "a slice runs past its tokens or blocks");
  for (int32_t p = slice.first_position; p < end; ++p)
    if (tokens[static_cast<size_t>(p)] != token_at(slice.key.sequence, p))
      return world_.violate(2, "a wrong token was fed at position " + std::to_string(p));
  for (int32_t b = 0; b * block_tokens < slice.first_position; ++b)
    if (memory_[blocks[static_cast<size_t>(b)].value()] != slice.key)
      return world_.violate(4, "a KV block holds another sequence's data");
  for (int32_t b = slice.first_position / block_tokens; b * block_tokens < end; ++b)
    memory_[blocks[static_cast<size_t>(b)].value()] = slice.key;
}

void SimNode::carry_out(const Emit& emit) {
  frame_.tokens.push_back({id_, emit.key.sequence, emit.key.epoch, emit.position, emit.token, emit.end});
}

void SimNode::carry_out(const Preempted&) { world_.count_preemption(); }

void SimNode::carry_out(const Refused& refused) {
  // A repeated or superseded start is no news for the router; the rest is told by whoever asked.
  if (refused.reason != RefuseReason::kDuplicate && refused.reason != RefuseReason::kStaleEpoch)
    refused_[refused.key] = refused.reason;
}

void SimNode::carry_out(const Ended& ended) {
  if (ended.reason == EndReason::kFailed || ended.reason == EndReason::kHandoffFailed)
    report_failed(ended.key);
  decode_node_of_.erase(ended.key);
  if (!ended.handoff_open) return;
  if (senders_.contains(ended.key)) stop_sender(ended.key);
  if (const auto it = receivers_.find(ended.key); it != receivers_.end() && !it->second.aborting) {
    it->second.aborting = true;
    ask_abort(ended.key, it->second.generation);
  }
}

void SimNode::carry_out(const Freed& freed) { receivers_.erase(freed.key); }

}  // namespace penstock::sim
