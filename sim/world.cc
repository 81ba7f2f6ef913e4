#include "sim/world.h"

#include <algorithm>

namespace penstock::sim {

using namespace scheduler;  // NOLINT: the vocabulary of this file is the scheduler's

namespace {

constexpr Duration kHeartbeat = Duration::from_ms(200);
constexpr Duration kDeadAfter = Duration::from_ms(2000);
constexpr Duration kQuietWithin = Duration::from_ms(240'000);  // after the last arrival
constexpr NodeId kStranger{0xffffffff};

}  // namespace

World::World(const Scenario& scenario, std::vector<uint8_t>* record)
    : scenario_(scenario),
      rng_(mix64(scenario.seed ^ 0x776f726c64ULL)),
      cluster_(scenario.policy),
      record_(record),
      noise_(scenario.nodes.size()) {
  if (record_ != nullptr) writer_.begin(scenario.policy, *record_);
  for (size_t i = 0; i < scenario.nodes.size(); ++i)
    nodes_.push_back(std::make_unique<SimNode>(*this, static_cast<int>(i), scenario.nodes[i]));
  for (const RequestPlan& plan : scenario.requests) {
    clients_[plan.sequence] = {plan, plan.prompt_tokens};
    queue_.at(plan.arrives + Duration::from_ms(300), [this, plan] {
      step(Arrival{plan.sequence, plan.prompt_tokens, plan.tokens_max, plan.deadline});
    });
    if (plan.leaves != TimePoint::max())
      queue_.at(plan.leaves + Duration::from_ms(300), [this, id = plan.sequence] {
        clients_[id].gone = true;
        step(ClientGone{id});
      });
  }
  messages_are_lost_ = std::any_of(scenario.faults.begin(), scenario.faults.end(),
                                   [](const FaultPlan& fault) { return fault.kind == FaultKind::kLoss; });
  for (const FaultPlan& fault : scenario.faults)
    queue_.at(fault.starts, [this, fault] { start_fault(fault); });
  open_ = clients_.size();
  faults_left_ = scenario.faults.size();
  quiet_deadline_ = scenario.requests.back().arrives + kQuietWithin;
}

World::~World() = default;

WorldReport World::run() {
  for (auto& node : nodes_) {
    node->start_process();
    beat(node->index());
  }
  watch_heartbeats();
  while (!report_.violation && !done()) {
    if (now() > quiet_deadline_) {
      check_quiet();
      break;
    }
    ++report_.events;
    queue_.run_next();
  }
  if (record_ != nullptr) writer_.end(*record_);
  const ClusterStats stats = cluster_.stats();
  report_.requests = clients_.size();
  report_.finished = stats.finished;
  report_.rejected = stats.rejected;
  report_.failed = stats.failed;
  report_.replays = stats.replays;
  report_.tokens = stats.tokens_delivered;
  report_.action_hash = hash_.value();
  return report_;
}

// ---- Router driver ----------------------------------------------------------------------------------------

void World::step(const ClusterEvent& event) {
  if (report_.violation) return;
  note_pairs();
  if (record_ != nullptr) writer_.add_event(now(), event, *record_);
  const ClusterActions actions = cluster_.step(now(), event);  // a copy: carrying out may step again
  cluster_.check_invariants();
  hash_.add(now(), actions);
  if (record_ != nullptr) writer_.add_actions(now(), actions, *record_);
  for (const ClusterAction& action : actions) std::visit([this](const auto& a) { carry_out(a); }, action);
  tick_when_due();
}

void World::tick_when_due() {
  const TimePoint due = cluster_.next_wakeup();
  if (due >= tick_at_) return;
  tick_at_ = due;
  queue_.at(due, [this, due] {
    if (tick_at_ != due) return;
    tick_at_ = TimePoint::max();
    step(Tick{});
  });
}

void World::carry_out(const StartPrefill& start) {
  const Registration& p = registrations_.at(start.prefill);
  const Registration& d = registrations_.at(start.decode);
  if (!p.accepted || !d.accepted || nodes_[static_cast<size_t>(p.node)]->plan().role != NodeRole::kPrefill ||
      nodes_[static_cast<size_t>(d.node)]->plan().role != NodeRole::kDecode)
    return violate(5, "a pair of nodes that was never accepted together");
  begin_attempt({start.sequence, start.epoch}, {start.prefill, start.decode});
  StartMessage message{SequenceKind::kPrefill, d.node, spec_of({start.sequence, start.epoch}, start.tokens)};
  send_to_node(start.prefill, [message](SimNode& node) { node.on_start(message); });
}

void World::carry_out(const StartColocated& start) {
  begin_attempt({start.sequence, start.epoch}, {start.node});
  StartMessage message{SequenceKind::kLocal, 0, spec_of({start.sequence, start.epoch}, start.tokens)};
  send_to_node(start.node, [message](SimNode& node) { node.on_start(message); });
}

void World::carry_out(const AbortOn& abort) {
  send_to_node(abort.node,
               [key = SequenceKey{abort.sequence, abort.epoch}](SimNode& node) { node.on_abort(key); });
}

void World::carry_out(const NodeAccepted& accepted) {
  if (accepted.node == kStranger) return violate(5, "a node of another layout was accepted");
  registrations_.at(accepted.node).accepted = true;
  for (const auto& [id, registration] : registrations_)
    if (registration.accepted && id != accepted.node) connect(accepted.node, id);
  send_to_node(accepted.node, [id = accepted.node](SimNode& node) { node.on_registered(id); });
}

void World::carry_out(const NodeRefused& refused) {
  if (refused.node != kStranger) return violate(5, "a fitting node was refused: " + refused.reason);
  stranger_pending_ = false;
}

void World::carry_out(const NodeDrained& drained) {
  const auto it = registrations_.find(drained.node);
  if (it == registrations_.end() || !it->second.draining) return;
  const int node = it->second.node;
  lose(drained.node);
  if (nodes_[static_cast<size_t>(node)]->alive()) crash(node);  // it leaves; nothing of it may be missed
  queue_.after(Duration::from_ms(500), [this, node] { restart(node); });
}

// Peers dial each other once both are registered; the pair is up when both have probed the link.
void World::connect(NodeId a, NodeId b) {
  const bool a_prefills =
      nodes_[static_cast<size_t>(registrations_.at(a).node)]->plan().role == NodeRole::kPrefill;
  const NodeId prefill = a_prefills ? a : b, decode = a_prefills ? b : a;
  queue_.after(Duration{rng_.between(1000, 50'000)}, [this, prefill, decode] {
    const auto p = registrations_.find(prefill), d = registrations_.find(decode);
    if (p == registrations_.end() || d == registrations_.end()) return;
    const SimNode& p_node = *nodes_[static_cast<size_t>(p->second.node)];
    const SimNode& d_node = *nodes_[static_cast<size_t>(d->second.node)];
    if (p_node.plan().role == d_node.plan().role) return;
    if (partitioned_.contains({p_node.index(), d_node.index()})) return;
    pairs_.insert({prefill, decode});
    step(PairUp{prefill, decode, p_node.plan().link_bytes_per_s});
  });
}

void World::register_node(SimNode& node) {
  transmit(
      noise_[static_cast<size_t>(node.index())],
      [this, index = node.index(), incarnation = node.incarnation()] { on_register(index, incarnation); });
}

void World::on_register(int index, uint32_t incarnation) {
  const SimNode& node = *nodes_[static_cast<size_t>(index)];
  if (!node.alive() || node.incarnation() != incarnation) return;  // the connection is gone with its process
  // One registration a node: a new one replaces what the router still believed in.
  lose_process(index, [](const Registration&) { return true; });
  const NodePlan& plan = node.plan();
  NodeJoined joined;
  joined.node = NodeId(++node_ids_);
  joined.name = "node-" + std::to_string(index);
  joined.role = plan.role;
  joined.capability.model = "simulated";
  joined.capability.kv_dtype = "bf16";
  joined.capability.block_tokens = plan.batch.block_tokens;
  joined.capability.layers = 4;
  joined.capability.kv_heads = 2;
  joined.capability.head_dim = 64;
  joined.capability.context_max = node.batch().context_max();
  joined.capacity = {plan.batch.pool_blocks,    plan.batch.sequences_max,    plan.batch.batch_tokens_max,
                     plan.prefill_tokens_per_s, plan.decode_b1_tokens_per_s, plan.decode_bmax_tokens_per_s};
  registrations_[joined.node] = {index, incarnation, now(), false, false};
  step(joined);
}

void World::to_router(SimNode& from, Frame frame) {
  transmit(noise_[static_cast<size_t>(from.index())], [this, frame = std::move(frame)] { on_frame(frame); });
}

void World::on_frame(const Frame& frame) {
  const auto it = registrations_.find(frame.node);
  if (it == registrations_.end()) {
    // A node that the router gave up lives: it must drop its work and register again.
    for (auto& node : nodes_)
      if (node->alive() && node->id() == frame.node)
        transmit(noise_[static_cast<size_t>(node->index())],
                 [&target = *node, incarnation = node->incarnation(), id = frame.node] {
                   target.run(incarnation, [&target, id] { target.on_reset(id); });
                 });
    return;
  }
  it->second.last_frame = now();
  for (const TokenArrived& token : frame.tokens) {
    const bool stale = token.epoch != attempts_[token.sequence].key.epoch;
    const int32_t before = clients_.at(token.sequence).next_position;
    step(token);
    if (stale && clients_.at(token.sequence).next_position != before)
      return violate(2, "a token of a superseded attempt was delivered");
  }
  for (const ClusterEvent& event : frame.events) step(event);
  NodeLoad load;
  load.node = frame.node;
  load.blocks_free = frame.load.blocks_free;
  load.blocks_held = frame.load.blocks_held;
  load.blocks_leased = frame.load.blocks_leased;
  load.blocks_quarantined = frame.load.blocks_quarantined;
  load.running = frame.load.running;
  load.waiting = frame.load.waiting;
  load.waiting_tokens = frame.load.waiting_tokens;
  step(load);
}

void World::lose(NodeId id) {
  std::erase_if(pairs_, [id](const auto& pair) { return pair.first == id || pair.second == id; });
  if (registrations_.erase(id) > 0) step(NodeLost{id});
}

// Collected first: losing one may lose another that was draining.
void World::lose_process(int index, const std::function<bool(const Registration&)>& which) {
  std::vector<NodeId> lost;
  for (const auto& [id, registration] : registrations_)
    if (registration.node == index && which(registration)) lost.push_back(id);
  for (const NodeId id : lost) lose(id);
}

void World::send_to_node(NodeId id, std::function<void(SimNode&)> work) {
  const auto it = registrations_.find(id);
  if (it == registrations_.end()) return;
  SimNode& node = *nodes_[static_cast<size_t>(it->second.node)];
  transmit(noise_[static_cast<size_t>(it->second.node)],
           [&node, incarnation = it->second.incarnation, work = std::move(work)] {
             node.run(incarnation, [&node, work] { work(node); });
           });
}

void World::watch_heartbeats() {
  std::vector<NodeId> dead;
  for (const auto& [id, registration] : registrations_)
    if (now() - registration.last_frame > kDeadAfter) dead.push_back(id);
  for (const NodeId id : dead) lose(id);
  queue_.after(kHeartbeat, [this] { watch_heartbeats(); });
}

void World::beat(int index) {
  SimNode& node = *nodes_[static_cast<size_t>(index)];
  if (node.alive() && !node.paused()) node.run(node.incarnation(), [&node] { node.on_heartbeat_due(); });
  queue_.after(kHeartbeat, [this, index] { beat(index); });
}

// ---- Links ------------------------------------------------------------------------------------------------

void World::transmit(const Noise& noise, std::function<void()> deliver) {
  const int copies = noise.duplication > 0 && rng_.uniform() < noise.duplication ? 2 : 1;
  for (int copy = 0; copy < copies; ++copy) {
    if (noise.loss > 0 && rng_.uniform() < noise.loss) continue;
    int64_t delay_us = rng_.between(50, 150);
    if (noise.reordering > 0 && rng_.uniform() < noise.reordering) delay_us += rng_.between(100, 400'000);
    queue_.after(Duration{delay_us}, deliver);
  }
}

void World::to_peer(int from, int to, PeerMessage message) {
  if (partitioned_.contains({std::min(from, to), std::max(from, to)})) return;
  SimNode& node = *nodes_[static_cast<size_t>(to)];
  const Noise& a = noise_[static_cast<size_t>(from)];
  const Noise& b = noise_[static_cast<size_t>(to)];
  const Noise worst{std::max(a.loss, b.loss), std::max(a.duplication, b.duplication),
                    std::max(a.reordering, b.reordering)};
  transmit(worst, [&node, incarnation = node.incarnation(), message = std::move(message)] {
    node.run(incarnation, [&node, message] { node.on_peer(message); });
  });
}

// One-sided: neither the target's pause nor a partition of the control messages stops it, only its death
// does.
void World::put(int index, uint32_t incarnation, SequenceKey key, BlockId block) {
  SimNode& node = *nodes_[static_cast<size_t>(index)];
  if (node.alive() && node.incarnation() == incarnation) node.remote_write(key, block);
}

SequenceSpec World::spec_of(SequenceKey key, int32_t tokens) const {
  const RequestPlan& plan = clients_.at(key.sequence).plan;
  SequenceSpec spec;
  spec.key = key;
  for (int32_t p = 0; p < tokens; ++p) spec.tokens.push_back(token_at(key.sequence, p));
  spec.prompt_tokens = plan.prompt_tokens;
  spec.tokens_max = plan.tokens_max;
  if (plan.stop_position >= 0) spec.stop_ids.push_back(token_at(key.sequence, plan.stop_position));
  return spec;
}

}  // namespace penstock::sim
