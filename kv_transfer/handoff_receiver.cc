#include "kv_transfer/handoff_receiver.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/fault_point.h"
#include "kv_transfer/block_digest.h"
#include "kv_transfer/canary.h"
#include "kv_transfer/ended_table.h"
#include "kv_transfer/handoff_messages.h"

namespace penstock {
namespace {

namespace msg = wire::handoff;

constexpr Duration kRetryMax = Duration::from_ms(5000);

enum class Phase {
  kRequested,    // RESERVE came, the owner has not answered
  kOffered,      // P may write
  kVerifying,    // COMMIT came, digests are being compared
  kQuarantined,  // failed, and P may still write
  kEnded,        // erased by the next poll
};

struct Incoming {
  HandoffKey key;
  SequenceId sequence;
  PeerId peer;            // the connection it came over: may_write() of it decides
  uint64_t instance = 0;  // messages of another process do not count
  uint32_t tokens = 0;
  std::vector<BlockId> blocks;
  Phase phase = Phase::kRequested;
  TransferDigest digest;
  std::deque<msg::FlushedRange> landed;  // said to be flushed, not digested yet
  std::optional<msg::CommitT> commit;
  size_t cursor = 0;                            // next (plane, position) to digest after COMMIT
  HandoffReason reason = HandoffReason::kNone;  // of the failure
  bool drained = false;
  TimePoint lease_until, last_heard, next_retry;
  Duration retry;
};

struct Inbound {
  PeerId from;
  uint64_t instance;
  HandoffMessage message;
};

}  // namespace

struct HandoffReceiver::State {
  State(Transport& t, const HandoffPool& p, const HandoffCapability& c, const HandoffOptions& o)
      : transport(t), pool(p), capability(c), options(o), ended(o.ended_max) {}

  Transport& transport;
  const HandoffPool pool;
  const HandoffCapability capability;
  const HandoffOptions options;
  std::map<HandoffKey, std::unique_ptr<Incoming>> transfers;
  EndedTable ended;
  std::vector<Inbound> inbox;
  std::vector<PeerId> failed_peers;
  std::vector<ReceiverEvent> events;
  bool draining = false;

  Incoming* find(HandoffKey key, Phase at_most);
  template <typename Body>
  void send(uint64_t instance, HandoffKey key, Body body) {
    // A connection that fails is reported by the transport; what gets lost is repeated.
    const std::string bytes = encode_body(key, std::move(body));
    static_cast<void>(transport.send_message(transport.connection_to(instance), MessageType::kToSender,
                                             std::as_bytes(std::span(bytes))));
  }
  template <typename Answer>
  void send_no(uint64_t instance, HandoffKey key, HandoffReason reason, std::string message) {
    Answer answer;
    answer.reason = static_cast<uint8_t>(reason);
    answer.message = std::move(message);
    send(instance, key, std::move(answer));
  }
  void send_offer(const Incoming& transfer);

  void handle(TimePoint now, const Inbound& inbound);
  void on_reserve(TimePoint now, const Inbound& inbound, const msg::ReserveT& reserve);
  std::optional<HandoffFailure> why_not(HandoffKey key, const msg::ReserveT& reserve) const;
  void supersede(TimePoint now, HandoffKey key);
  void on_commit(TimePoint now, Incoming& transfer, const msg::CommitT& commit);
  void on_drained(const Inbound& inbound, HandoffReason reason);
  void on_lease(TimePoint now, const Inbound& inbound, const msg::LeaseT& lease);
  void answer_late(uint64_t instance, HandoffKey key);

  size_t digest_some(Incoming& transfer, size_t budget);
  bool digest_block(Incoming& transfer, uint32_t plane, uint32_t position);
  void verify(TimePoint now, Incoming& transfer);
  void find_deadlines(TimePoint now, Incoming& transfer);
  void release_if_safe(TimePoint now, Incoming& transfer);

  void fail_transfer(TimePoint now, Incoming& transfer, HandoffReason reason, std::string message);
  void fail_peer(TimePoint now, PeerId peer, HandoffReason reason, const std::string& message);
  void report(ReceiverEvent::Kind kind, const Incoming& transfer) {
    ReceiverEvent& event = events.emplace_back();
    event.kind = kind;
    event.key = transfer.key;
    event.sequence = transfer.sequence;
    event.blocks = transfer.blocks;
  }
};

HandoffReceiver::HandoffReceiver(Transport& transport, const HandoffPool& pool,
                                 const HandoffCapability& capability, const HandoffOptions& options)
    : state_(std::make_unique<State>(transport, pool, capability, options)) {
  State* state = state_.get();
  transport.set_message_handler(
      MessageType::kToReceiver, [state](PeerId from, std::span<const std::byte> body) {
        Result<HandoffMessage> message = decode_message(body, state->options.tokens_max);
        // A malformed message comes from a peer that hello should have refused; its sender will time out.
        if (message.ok())
          state->inbox.push_back({from, state->transport.instance_of(from), std::move(*message)});
      });
  transport.add_peer_failed_listener(
      [state](PeerId peer, const Failure&) { state->failed_peers.push_back(peer); });
}

HandoffReceiver::~HandoffReceiver() = default;

bool HandoffReceiver::offer(TimePoint now, HandoffKey key, const std::vector<BlockId>& blocks) {
  Incoming* transfer = state_->find(key, Phase::kRequested);
  if (transfer == nullptr) return false;
  CHECK_EQ(static_cast<int64_t>(blocks.size()), state_->pool.layout.blocks_for(transfer->tokens));
  for (BlockId block : blocks) CHECK_LT(block.value(), state_->pool.blocks);
  transfer->blocks = blocks;
  transfer->phase = Phase::kOffered;
  transfer->lease_until = now + state_->options.lease;
  transfer->last_heard = now;
  if (state_->options.digests)
    transfer->digest = TransferDigest(static_cast<size_t>(state_->pool.layout.planes()), blocks.size());
  state_->send_offer(*transfer);
  FAULT_POINT("kv.offer_sent");
  return true;
}

void HandoffReceiver::State::send_offer(const Incoming& transfer) {
  msg::OfferT offer;
  offer.blocks = ranges_of(transfer.blocks);
  const MemoryDescriptor memory = pool.memory.descriptor();
  offer.pool_blocks = pool.blocks;
  offer.pool_base = memory.base;
  offer.pool_bytes = memory.bytes;
  offer.pool_key.assign(memory.key.begin(), memory.key.end());
  offer.lease_us = static_cast<uint64_t>(options.lease.us);
  send(transfer.instance, transfer.key, std::move(offer));
}

void HandoffReceiver::refuse(TimePoint, HandoffKey key, HandoffReason reason, std::string message) {
  Incoming* transfer = state_->find(key, Phase::kRequested);
  if (transfer == nullptr) return;
  state_->send_no<msg::RefuseT>(transfer->instance, key, reason, std::move(message));
  state_->ended.insert(key, {false, reason, 0});
  state_->transfers.erase(key);
}

void HandoffReceiver::abort(TimePoint now, HandoffKey key, HandoffReason reason) {
  if (Incoming* transfer = state_->find(key, Phase::kVerifying))
    state_->fail_transfer(now, *transfer, reason, "aborted on the decode side");
}

void HandoffReceiver::peer_silent(TimePoint now, PeerId peer) {
  state_->fail_peer(now, peer, HandoffReason::kPeerSilent, "the prefill node sends no heartbeats");
}

void HandoffReceiver::drain() { state_->draining = true; }

bool HandoffReceiver::poll(TimePoint now) {
  State& s = *state_;
  for (PeerId peer : std::exchange(s.failed_peers, {}))
    s.fail_peer(now, peer, HandoffReason::kPeerLost, "the connection to the prefill node failed");
  for (const Inbound& inbound : std::exchange(s.inbox, {})) s.handle(now, inbound);
  size_t budget = s.options.post_bytes_per_poll;
  bool more = false;
  for (auto entry = s.transfers.begin(); entry != s.transfers.end();) {
    Incoming& transfer = *entry->second;
    if (transfer.phase == Phase::kOffered || transfer.phase == Phase::kVerifying) {
      budget -= s.digest_some(transfer, budget);
      more |= budget == 0;
    }
    if (transfer.phase == Phase::kVerifying) s.verify(now, transfer);
    s.find_deadlines(now, transfer);
    if (transfer.phase == Phase::kQuarantined) s.release_if_safe(now, transfer);
    entry = transfer.phase == Phase::kEnded ? s.transfers.erase(entry) : std::next(entry);
  }
  return more;
}

void HandoffReceiver::State::handle(TimePoint now, const Inbound& inbound) {
  const msg::BodyUnion& body = inbound.message.body;
  const HandoffKey key = inbound.message.key;
  if (body.type == msg::Body::Reserve) return on_reserve(now, inbound, *body.AsReserve());
  if (body.type == msg::Body::Lease) return on_lease(now, inbound, *body.AsLease());
  if (body.type == msg::Body::Drained)
    return on_drained(inbound, static_cast<HandoffReason>(body.AsDrained()->reason));
  Incoming* transfer = find(key, Phase::kVerifying);
  if (transfer == nullptr) {
    if (body.type == msg::Body::Commit || body.type == msg::Body::Status) answer_late(inbound.instance, key);
    return;
  }
  if (transfer->instance != inbound.instance) return;
  transfer->last_heard = now;
  switch (body.type) {
    case msg::Body::Progress:
      if (transfer->phase != Phase::kOffered || transfer->landed.size() > options.tokens_max) return;
      for (const msg::FlushedRange& range : body.AsProgress()->ranges) transfer->landed.push_back(range);
      return;
    case msg::Body::Commit:
      return on_commit(now, *transfer, *body.AsCommit());
    case msg::Body::Status:
      return send(inbound.instance, key, msg::AliveT());
    default:
      return;
  }
}

void HandoffReceiver::State::on_reserve(TimePoint now, const Inbound& inbound, const msg::ReserveT& reserve) {
  const HandoffKey key = inbound.message.key;
  FAULT_POINT("kv.reserve_received");
  if (const Incoming* known = find(key, Phase::kVerifying)) {  // repeated: so is the answer, if there is one
    if (known->phase == Phase::kOffered && known->instance == inbound.instance) send_offer(*known);
    return;
  }
  if (const std::optional<HandoffFailure> no = why_not(key, reserve))
    return send_no<msg::RefuseT>(inbound.instance, key, no->reason, no->message);
  supersede(now, key);
  auto transfer = std::make_unique<Incoming>();
  transfer->key = key;
  transfer->sequence = SequenceId(reserve.sequence);
  transfer->peer = inbound.from;
  transfer->instance = inbound.instance;
  transfer->tokens = static_cast<uint32_t>(reserve.ids.size());
  transfer->last_heard = now;
  transfer->retry = options.retry;
  report(ReceiverEvent::Kind::kReserveRequested, *transfer);
  events.back().request = request_of(key, reserve);
  transfers[key] = std::move(transfer);
}

// Everything that makes a RESERVE unacceptable before blocks come into question.
std::optional<HandoffFailure> HandoffReceiver::State::why_not(HandoffKey key,
                                                              const msg::ReserveT& reserve) const {
  const auto later = transfers.upper_bound(key);
  const bool stale =
      ended.knows_later(key) || (later != transfers.end() && later->first.transfer == key.transfer);
  if (stale && !CANARY(kForgetEnded))
    return HandoffFailure{HandoffReason::kStaleEpoch, "a later epoch is known"};
  if (const auto end = ended.find(key); end && !CANARY(kForgetEnded))
    return HandoffFailure{
        end->committed || end->reason == HandoffReason::kNone ? HandoffReason::kConsumed : end->reason,
        "this transfer has ended here: its descriptors are consumed"};
  if (transfers.contains(key))
    return HandoffFailure{HandoffReason::kConsumed, "this transfer has failed here"};
  if (reserve.protocol != capability.protocol)
    return HandoffFailure{HandoffReason::kProtocol, "handoff protocol " + std::to_string(reserve.protocol) +
                                                        ", here " + std::to_string(capability.protocol)};
  if (reserve.model != capability.model)
    return HandoffFailure{HandoffReason::kWrongModel,
                          "model " + reserve.model + ", here " + capability.model};
  if (LayoutHash(reserve.layout_hash) != capability.layout.hash())
    return HandoffFailure{HandoffReason::kWrongLayout,
                          "another KV layout; here " + capability.layout.describe()};
  if (WeightVersion(reserve.weight_version) != capability.weight_version)
    return HandoffFailure{HandoffReason::kWrongVersion,
                          "weight version " + std::to_string(reserve.weight_version) + ", here " +
                              std::to_string(capability.weight_version.value())};
  const auto tokens = static_cast<int64_t>(reserve.ids.size());
  if (tokens == 0 || pool.layout.blocks_for(tokens) > pool.blocks)
    return HandoffFailure{HandoffReason::kProtocol,
                          std::to_string(tokens) + " tokens: none, or more than the pool holds"};
  if (draining) return HandoffFailure{HandoffReason::kDraining, "this node takes no new work"};
  const auto active = std::count_if(transfers.begin(), transfers.end(), [](const auto& entry) {
    return entry.second->phase < Phase::kQuarantined;
  });
  if (active >= static_cast<int64_t>(options.transfers_max))
    return HandoffFailure{HandoffReason::kNoCredit, std::to_string(active) + " transfers are under way"};
  return std::nullopt;
}

// A new epoch ends the life of the earlier ones; their blocks stay in quarantine as long as they must.
void HandoffReceiver::State::supersede(TimePoint now, HandoffKey key) {
  for (auto entry = transfers.lower_bound({key.transfer, Epoch()}); entry != transfers.lower_bound(key);
       ++entry)
    fail_transfer(now, *entry->second, HandoffReason::kStaleEpoch, "replaced by a later epoch");
}

void HandoffReceiver::State::on_commit(TimePoint now, Incoming& transfer, const msg::CommitT& commit) {
  if (transfer.phase == Phase::kVerifying) return;  // repeated
  FAULT_POINT("kv.commit_received");
  if (transfer.phase == Phase::kRequested)
    return fail_transfer(now, transfer, HandoffReason::kProtocol, "COMMIT before OFFER");
  const uint64_t expected = transfer.blocks.size() * static_cast<uint64_t>(pool.layout.block_bytes_all());
  if (commit.bytes != expected)
    return fail_transfer(
        now, transfer, HandoffReason::kCorrupt,
        "COMMIT of " + std::to_string(commit.bytes) + " bytes, expected " + std::to_string(expected));
  const bool sane = commit.position == static_cast<int64_t>(transfer.tokens) && commit.token >= 0 &&
                    (capability.vocab == 0 || static_cast<uint32_t>(commit.token) < capability.vocab) &&
                    (commit.has_digest || !options.digests);
  if (!sane)
    return fail_transfer(now, transfer, HandoffReason::kProtocol,
                         "COMMIT with an impossible token or position");
  transfer.commit = commit;
  transfer.phase = Phase::kVerifying;
}

// P says that it writes no more: the one message that lets blocks go while P lives.
void HandoffReceiver::State::on_drained(const Inbound& inbound, HandoffReason reason) {
  const auto found = transfers.find(inbound.message.key);
  if (found == transfers.end()) {
    // A RESERVE of it may still be on its way; without COMMIT it would hold blocks for nothing.
    if (!ended.find(inbound.message.key))
      ended.insert(inbound.message.key, {false, HandoffReason::kConsumed, 0});
    return;
  }
  Incoming& transfer = *found->second;
  if (transfer.instance != inbound.instance || transfer.phase == Phase::kEnded) return;
  FAULT_POINT("kv.drained");
  transfer.drained = true;
  if (transfer.phase < Phase::kQuarantined)
    fail_transfer(TimePoint(), transfer, reason == HandoffReason::kNone ? HandoffReason::kCancelled : reason,
                  "ended by the prefill node");
}

void HandoffReceiver::State::on_lease(TimePoint now, const Inbound& inbound, const msg::LeaseT& lease) {
  for (const msg::LeaseEntry& entry : lease.entries) {
    const HandoffKey key{TransferId(entry.transfer()), Epoch(entry.epoch())};
    Incoming* transfer = find(key, Phase::kVerifying);
    if (transfer == nullptr) {
      answer_late(inbound.instance, key);
    } else if (transfer->instance == inbound.instance) {
      transfer->lease_until = now + options.lease;
    }
  }
}

// A typed answer to COMMIT, STATUS or a renewal for what is no longer under way.
void HandoffReceiver::State::answer_late(uint64_t instance, HandoffKey key) {
  const std::optional<TransferEnd> end = ended.find(key);
  if (end && end->committed) {
    msg::AckT ack;
    ack.bytes = end->bytes;
    return send(instance, key, ack);
  }
  if (ended.knows_later(key))
    return send_no<msg::NackT>(instance, key, HandoffReason::kStaleEpoch, "a later epoch is known");
  if (const auto found = transfers.find(key); found != transfers.end())
    return send_no<msg::NackT>(instance, key, found->second->reason, "this transfer has failed here");
  send_no<msg::NackT>(instance, key, end ? HandoffReason::kConsumed : HandoffReason::kUnknown,
                      end ? "this transfer has ended here" : "no such transfer");
}

bool HandoffReceiver::State::digest_block(Incoming& transfer, uint32_t plane, uint32_t position) {
  if (transfer.digest.known(plane, position)) return false;
  const int64_t offset = pool.layout.block_offset(static_cast<int32_t>(plane / 2), plane % 2 == 1,
                                                  transfer.blocks[position].value(), pool.blocks);
  transfer.digest.set(
      plane, position,
      block_digest(pool.memory.base + offset, static_cast<size_t>(pool.layout.block_bytes())));
  return true;
}

// Digests what is said to have landed and, after COMMIT, all the rest. Returns the bytes it cost, at most
// `budget`, which it reaches only when there is more to do.
size_t HandoffReceiver::State::digest_some(Incoming& transfer, size_t budget) {
  if (!options.digests) return 0;
  const auto block_bytes = static_cast<size_t>(pool.layout.block_bytes());
  const auto planes = static_cast<uint32_t>(pool.layout.planes());
  const auto blocks = static_cast<uint32_t>(transfer.blocks.size());
  size_t spent = 0;
  while (!transfer.landed.empty()) {
    if (spent >= budget) return budget;
    const msg::FlushedRange range = transfer.landed.front();
    transfer.landed.pop_front();
    if (range.plane() >= planes || range.first_block() >= blocks ||
        range.blocks() > blocks - range.first_block())
      continue;  // nothing here: the comparison after COMMIT covers every block anyway
    for (uint32_t i = 0; i < range.blocks(); ++i)
      spent += digest_block(transfer, range.plane(), range.first_block() + i) ? block_bytes : 0;
  }
  if (!transfer.commit) return std::min(spent, budget);
  for (; transfer.cursor < size_t{planes} * blocks; ++transfer.cursor) {
    if (spent >= budget) return budget;
    const bool fresh = digest_block(transfer, static_cast<uint32_t>(transfer.cursor / blocks),
                                    static_cast<uint32_t>(transfer.cursor % blocks));
    spent += fresh ? block_bytes : 0;
  }
  return std::min(spent, budget);
}

void HandoffReceiver::State::verify(TimePoint now, Incoming& transfer) {
  const size_t all = static_cast<size_t>(pool.layout.planes()) * transfer.blocks.size();
  if (options.digests && (transfer.cursor < all || !transfer.landed.empty()))
    return;  // more in the next poll
  if (options.digests && transfer.digest.combined() != transfer.commit->digest && !CANARY(kSkipDigest))
    return fail_transfer(now, transfer, HandoffReason::kCorrupt, "digest differs from what arrived");
  const uint64_t bytes = transfer.commit->bytes;
  ended.insert(transfer.key, {true, HandoffReason::kNone, bytes});
  msg::AckT ack;
  ack.bytes = bytes;
  send(transfer.instance, transfer.key, ack);
  FAULT_POINT("kv.ack_sent");
  report(ReceiverEvent::Kind::kCommitted, transfer);
  events.back().bytes = bytes;
  events.back().first = {transfer.commit->token, transfer.commit->position, transfer.commit->seed,
                         transfer.commit->choice};
  transfer.phase = Phase::kEnded;
}

void HandoffReceiver::State::find_deadlines(TimePoint now, Incoming& transfer) {
  if (transfer.phase != Phase::kOffered) return;
  if (now >= transfer.lease_until)
    return fail_transfer(now, transfer, HandoffReason::kLeaseExpired,
                         "the prefill node did not renew its lease");
  const Duration quiet{options.lease.us / 2};
  if (now - transfer.last_heard < quiet || now < transfer.next_retry || CANARY(kNoStatus)) return;
  transfer.next_retry = now + options.retry;
  send(transfer.instance, transfer.key, msg::StatusT());
}

// The one place that gives quarantined blocks back. A timer never does.
void HandoffReceiver::State::release_if_safe(TimePoint now, Incoming& transfer) {
  const bool expired_canary = CANARY(kReleaseOnExpiry);
  if (transfer.drained || !transport.may_write(transfer.peer) || expired_canary) {
    report(ReceiverEvent::Kind::kReleased, transfer);
    ended.insert(transfer.key, {false, transfer.reason, 0});
    transfer.phase = Phase::kEnded;
    return;
  }
  if (now < transfer.next_retry) return;
  msg::AbortT abort;
  abort.reason = static_cast<uint8_t>(transfer.reason);
  send(transfer.instance, transfer.key, abort);
  transfer.next_retry = now + transfer.retry;
  transfer.retry = std::min(transfer.retry * 2, kRetryMax);
}

void HandoffReceiver::State::fail_transfer(TimePoint now, Incoming& transfer, HandoffReason reason,
                                           std::string message) {
  if (transfer.phase >= Phase::kQuarantined) return;
  transfer.reason = reason;
  report(ReceiverEvent::Kind::kFailed, transfer);
  events.back().failure = {reason, message};
  if (transfer.phase == Phase::kRequested) {  // nothing was offered, nothing can be written
    send_no<msg::RefuseT>(transfer.instance, transfer.key, reason, std::move(message));
    ended.insert(transfer.key, {false, reason, 0});
    transfer.phase = Phase::kEnded;
    return;
  }
  transfer.phase = Phase::kQuarantined;
  transfer.next_retry = now;
  transfer.retry = options.retry;
}

void HandoffReceiver::State::fail_peer(TimePoint now, PeerId peer, HandoffReason reason,
                                       const std::string& message) {
  for (auto& [key, transfer] : transfers) {
    if (transfer->peer == peer) fail_transfer(now, *transfer, reason, message);
  }
}

Incoming* HandoffReceiver::State::find(HandoffKey key, Phase at_most) {
  const auto found = transfers.find(key);
  return found == transfers.end() || found->second->phase > at_most ? nullptr : found->second.get();
}

TimePoint HandoffReceiver::next_deadline() const {
  TimePoint next = TimePoint::max();
  const State& s = *state_;
  for (const auto& [key, transfer] : s.transfers) {
    if (transfer->phase == Phase::kOffered) {
      const TimePoint ask =
          std::max(transfer->last_heard + Duration{s.options.lease.us / 2}, transfer->next_retry);
      next = std::min({next, transfer->lease_until, ask});
    }
    if (transfer->phase == Phase::kQuarantined) next = std::min(next, transfer->next_retry);
  }
  return next;
}

std::vector<ReceiverEvent> HandoffReceiver::take_events() { return std::exchange(state_->events, {}); }

size_t HandoffReceiver::active() const {
  return static_cast<size_t>(
      std::count_if(state_->transfers.begin(), state_->transfers.end(),
                    [](const auto& entry) { return entry.second->phase < Phase::kQuarantined; }));
}

size_t HandoffReceiver::quarantined_blocks() const {
  size_t blocks = 0;
  for (const auto& [key, transfer] : state_->transfers)
    blocks += transfer->phase == Phase::kQuarantined ? transfer->blocks.size() : 0;
  return blocks;
}

}  // namespace penstock
