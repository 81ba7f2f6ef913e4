#include "tests/node/role_world.h"

#include <algorithm>

#include "decode_node/decode_role.h"
#include "node/engine_loop.h"
#include "node/sequence_codec.h"
#include "prefill_node/prefill_role.h"
#include "wire/channel_zmq.h"

namespace penstock {
namespace {

// One for all: nobody reads what the lane probe writes.
LocalMemory probe_memory() {
  static std::vector<std::byte> memory(LaneProbe::kBytes);
  return {memory.data(), memory.size(), "probe"};
}

HandoffPool make_pool(Transport& transport, uint32_t blocks) {
  HandoffPool pool;
  pool.layout = PoolRunner::layout();
  pool.blocks = blocks;
  pool.memory = *transport.allocate(static_cast<size_t>(pool.layout.pool_bytes(blocks)));
  return pool;
}

}  // namespace

std::vector<TokenId> RoutedSequence::ids() const {
  std::vector<TokenId> out;
  for (const auto& [position, token] : tokens) {
    if (position != static_cast<int32_t>(prompt.size() + out.size())) break;
    out.push_back(token);
  }
  return out;
}

RoleWorld::RoleWorld(const RoleWorldOptions& options)
    : options_(options),
      rng_(options.network.seed * 77 + 5),
      network_(std::make_unique<MemoryNetwork>(options.network)) {
  clock.set({1'000'000});
  capability_.model = "test-model";
  capability_.weight_version = WeightVersion(1);
  capability_.layout = PoolRunner::layout();
  capability_.context_max = 4096;
  capability_.vocab = PoolRunner::kVocab;
}

RoleWorld::~RoleWorld() {
  // Completions in flight point at the loops' transfers: nothing may run them any more.
  for (const auto& node : nodes_) node->loop.reset();
  for (const auto& node : nodes_) node->transport.reset();
}

RoleNode& RoleWorld::add(NodeRole role, uint32_t pool_blocks) {
  RoleNode& node = *nodes_.emplace_back(std::make_unique<RoleNode>());
  const std::string name =
      (role == NodeRole::kPrefill ? "prefill-" : "decode-") + std::to_string(nodes_.size());
  node.identity = wire::node_identity(name, nodes_.size());
  node.role = role;
  node.transport = network_->make_transport();
  node.pool = make_pool(*node.transport, pool_blocks);
  node.runner = std::make_unique<PoolRunner>(node.pool);
  node.runner->between_layers = [this] {
    for (uint64_t i = rng_.below(8); i > 0; --i) turn();
  };
  scheduler::BatchConfig batch;
  batch.pool_blocks = static_cast<int32_t>(pool_blocks);
  batch.block_tokens = PoolRunner::kBlockTokens;
  batch.batch_tokens_max = options_.batch_tokens_max;
  batch.sequences_max = 8;
  batch.reserve_lead_tokens = options_.reserve_lead_tokens;
  const RoleParts parts = role == NodeRole::kPrefill ? prefill_role() : decode_role();
  node.side = parts.make_engine_side(node.ports);
  node.engine = std::make_unique<Engine>(batch, *node.runner, clock, *node.side);
  node.side->attach(*node.engine);
  node.loop = std::make_unique<TransferLoop>(*node.transport, node.pool, capability_, probe_memory(),
                                             TransferLoopOptions{options_.handoff, options_.heartbeat},
                                             node.ports, clock, Logger(), parts.make_transfer_side);
  return node;
}

void RoleWorld::dial(RoleNode& node, const RoleNode& peer, bool probe) {
  PeerHello hello;
  hello.address = peer.transport->address();
  hello.capability = capability_;
  hello.probe = probe_memory().descriptor();
  hello.pool = peer.pool.memory.descriptor();
  node.ports.transfer.post(ConnectPeer{peer.identity, std::move(hello), probe});
}

void RoleWorld::connect(RoleNode& prefill, RoleNode& decode, bool probe) {
  dial(decode, prefill);
  dial(prefill, decode, probe);
  settle();
}

// ---- The router -------------------------------------------------------------------------------------------

RoutedSequence& RoleWorld::request(uint64_t id, std::vector<TokenId> prompt) {
  RoutedSequence& sequence = sequences[id];
  sequence.start.sequence = id;
  sequence.start.epoch = 1;
  sequence.start.transfer = id * 1000 + 1;
  sequence.start.ids = prompt;
  sequence.start.prompt_tokens = static_cast<uint32_t>(prompt.size());
  sequence.start.tokens_max = 12;
  sequence.start.sampling = std::make_unique<wire::SamplingT>();
  sequence.start.sampling->temperature = 0;
  sequence.prompt = std::move(prompt);
  return sequence;
}

bool RoleWorld::send(RoutedSequence& sequence, RoleNode& node, const PeerIdentity& decode) {
  auto start = start_request_of(sequence.start, PoolRunner::kVocab);
  if (!start.ok()) return false;
  start->decode_peer = decode;
  node.ports.engine.post(std::move(*start));
  return true;
}

void RoleWorld::start_split(RoutedSequence& sequence, RoleNode& prefill, const RoleNode& decode) {
  sequence.start.mode = wire::Mode::Prefill;
  CHECK(send(sequence, prefill, decode.identity));
}

void RoleWorld::start_colocated(RoutedSequence& sequence, RoleNode& node) {
  sequence.start.mode = wire::Mode::Colocated;
  CHECK(send(sequence, node, ""));
}

void RoleWorld::next_attempt(RoutedSequence& sequence) {
  const std::vector<TokenId> so_far = sequence.ids();
  sequence.start.epoch += 1;
  sequence.start.ids = sequence.prompt;
  sequence.start.ids.insert(sequence.start.ids.end(), so_far.begin(), so_far.end());
  sequence.heard.clear();
  sequence.done = sequence.refused = sequence.failed = sequence.aborted = 0;
}

void RoleWorld::abort(const RoutedSequence& sequence, RoleNode& node) {
  node.ports.engine.post(AbortRequest{{SequenceId(sequence.start.sequence), Epoch(sequence.start.epoch)}});
}

RoutedSequence* RoleWorld::current(uint64_t id, uint32_t epoch) {
  const auto found = sequences.find(id);
  return found == sequences.end() || found->second.start.epoch != epoch ? nullptr : &found->second;
}

void RoleWorld::hear(RoleNode& node, StepReport&& report) {
  node.told = report.load;
  for (const EmittedToken& token : report.tokens) {
    RoutedSequence* sequence = current(token.key.sequence.value(), token.key.epoch.value());
    if (sequence == nullptr) continue;
    const TokenId known = sequence->tokens.try_emplace(token.position, token.token).first->second;
    const std::string place = "sequence " + std::to_string(token.key.sequence.value()) + ", position " +
                              std::to_string(token.position);
    if (!sequence->heard.insert(token.position).second) problems.push_back(place + ": twice in one attempt");
    if (known != token.token) problems.push_back(place + ": another token than before");
    if (token.end != EndReason::kNone) sequence->end = token.end;
  }
  for (const wire::EventUnion& event : report.events) hear(event);
}

void RoleWorld::hear(const wire::EventUnion& event) {
  if (const auto* done = event.AsHandoffDone()) {
    RoutedSequence* sequence = current(done->sequence, done->epoch);
    if (sequence == nullptr) return;
    ++sequence->done;
    sequence->bytes = done->bytes;
  } else if (const auto* refused = event.AsReserveRefused()) {
    RoutedSequence* sequence = current(refused->sequence, refused->epoch);
    if (sequence == nullptr) return;
    ++sequence->refused;
    sequence->message = refused->reason;
  } else if (const auto* failed = event.AsSequenceFailed()) {
    RoutedSequence* sequence = current(failed->sequence, failed->epoch);
    if (sequence == nullptr) return;
    ++sequence->failed;
    sequence->code = failed->code;
    sequence->message = failed->message;
  } else if (const auto* aborted = event.AsAborted()) {
    if (RoutedSequence* sequence = current(aborted->sequence, aborted->epoch)) ++sequence->aborted;
  } else {
    problems.push_back("an event that roles do not send");
  }
}

// ---- Turns ------------------------------------------------------------------------------------------------

void RoleWorld::kill(RoleNode& node) {
  node.alive = false;
  network_->kill(node.instance());
}

void RoleWorld::stop(RoleNode& node) {
  node.stopped = true;
  network_->stop(node.instance());
}

void RoleWorld::resume(RoleNode& node) {
  node.stopped = false;
  network_->resume(node.instance());
}

bool RoleWorld::run_engine(RoleNode& node) {
  if (!node.alive || node.stopped || node.in_forward || node.engine_paused) return false;
  std::vector<EngineMessage> messages;
  node.in_forward = true;
  const bool ran = run_engine_turn(*node.engine, *node.side, node.ports, messages);
  node.in_forward = false;
  node.engine->batch().check_invariants();
  return ran || !messages.empty();
}

bool RoleWorld::run_transfer(RoleNode& node) {
  if (!node.alive || node.stopped) return false;
  return node.loop->turn();
}

bool RoleWorld::run_control(RoleNode& node) {
  if (!node.alive || node.stopped) return false;
  std::vector<ControlMessage> messages;
  node.ports.control.take(messages);
  for (ControlMessage& message : messages) {
    if (auto* report = std::get_if<StepReport>(&message)) {
      hear(node, std::move(*report));
    } else if (const auto* event = std::get_if<NodeEvent>(&message)) {
      hear(event->event);
    } else if (const auto* ready = std::get_if<PairReady>(&message)) {
      node.ready.push_back(*ready);
    } else {
      node.broken.push_back(std::get<PairBroken>(message));
    }
  }
  return !messages.empty();
}

bool RoleWorld::turn() {
  ++turns;
  if (on_turn) on_turn(turns);
  const uint64_t chosen = rng_.below(2 * nodes_.size() + 2);
  if (chosen >= 2 * nodes_.size()) return network_->deliver();
  RoleNode& node = *nodes_[chosen / 2];
  const bool moved = chosen % 2 == 0 ? run_engine(node) : run_transfer(node);
  return run_control(node) || moved;
}

void RoleWorld::settle() {
  for (int quiet = 0; quiet < 3;) {
    bool moved = false;
    for (size_t i = 0; i < 10 * nodes_.size(); ++i) moved |= turn();
    // Chance may have left somebody out.
    moved |= network_->deliver();
    for (size_t i = 0; i < nodes_.size(); ++i) {
      moved |= run_engine(*nodes_[i]);
      moved |= run_transfer(*nodes_[i]);
      moved |= run_control(*nodes_[i]);
    }
    quiet = moved ? 0 : quiet + 1;
  }
}

void RoleWorld::pass(Duration time) {
  const TimePoint end = clock.now() + time;
  for (settle(); clock.now() < end; settle())
    clock.advance(std::min(Duration::from_ms(50), end - clock.now()));
}

}  // namespace penstock
