#include "kv_transfer/handoff_sender.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/fault_point.h"
#include "kv_transfer/canary.h"
#include "kv_transfer/ended_table.h"
#include "kv_transfer/handoff_messages.h"
#include "kv_transfer/transfer_writer.h"

namespace penstock {
namespace {

namespace msg = wire::handoff;

enum class Phase {
  kReserving,   // RESERVE sent, no OFFER yet
  kWriting,     // blocks offered, layers go out as they become ready
  kCommitting,  // all flushed, COMMIT sent, no ACK yet
  kDraining,    // failed: waits until what was posted has ended
  kEnded,       // kReleased reported; erased by the next poll
};

struct Outgoing {
  HandoffKey key;
  SequenceId sequence;
  PeerId peer;
  uint64_t instance = 0;  // of the peer: answers of another process do not count
  std::unique_ptr<TransferWriter> writer;
  std::string reserve;  // encoded, for repetition
  uint32_t tokens = 0;
  Phase phase = Phase::kReserving;
  std::optional<FirstToken> first;
  HandoffReason reason = HandoffReason::kNone;  // of the failure
  Duration lease;
  TimePoint reserved, first_post, all_flushed, lease_renewed, next_retry, deadline;
};

struct Inbound {
  uint64_t instance;
  HandoffMessage message;
};

}  // namespace

struct HandoffSender::State {
  State(Transport& t, const HandoffPool& p, const HandoffCapability& c, const HandoffOptions& o)
      : transport(t), pool(p), capability(c), options(o), ended(o.ended_max) {}

  Transport& transport;
  const HandoffPool pool;
  const HandoffCapability capability;
  const HandoffOptions options;
  std::map<HandoffKey, std::unique_ptr<Outgoing>> transfers;
  EndedTable ended;
  std::vector<Inbound> inbox;
  std::vector<PeerId> failed_peers;
  std::vector<SenderEvent> events;
  TimePoint next_renewal = TimePoint::max();

  Outgoing* find_active(HandoffKey key);
  Status check_reserve(PeerId peer, const HandoffRequest& request, const std::vector<BlockId>& blocks) const;
  template <typename Body>
  void send(const Outgoing& transfer, Body body) {
    // A connection that fails is reported by the transport; what gets lost is repeated.
    const std::string bytes = encode_body(transfer.key, std::move(body));
    static_cast<void>(transport.send_message(transport.connection_to(transfer.instance),
                                             MessageType::kToReceiver, std::as_bytes(std::span(bytes))));
  }
  void send_commit(Outgoing& transfer);
  void answer_ended(uint64_t instance, HandoffKey key);

  void handle(TimePoint now, Inbound& inbound);
  void on_offer(TimePoint now, Outgoing& transfer, const msg::OfferT& offer);
  void on_ack(TimePoint now, Outgoing& transfer);
  void on_status(Outgoing& transfer);

  bool advance(TimePoint now, Outgoing& transfer, size_t budget);
  bool write(TimePoint now, Outgoing& transfer, size_t budget);
  void drain(Outgoing& transfer);
  void find_deadlines(TimePoint now, Outgoing& transfer);
  void renew_leases(TimePoint now);

  void fail_transfer(Outgoing& transfer, HandoffReason reason, std::string message);
  void fail_peer(PeerId peer, HandoffReason reason, const std::string& message);
  void release(Outgoing& transfer, const TransferEnd& end);
  void report(SenderEvent::Kind kind, const Outgoing& transfer) {
    events.push_back({kind, transfer.key, transfer.sequence, {}, {}});
  }
};

HandoffSender::HandoffSender(Transport& transport, const HandoffPool& pool,
                             const HandoffCapability& capability, const HandoffOptions& options)
    : state_(std::make_unique<State>(transport, pool, capability, options)) {
  State* state = state_.get();
  transport.set_message_handler(
      MessageType::kToSender, [state](PeerId from, std::span<const std::byte> body) {
        Result<HandoffMessage> message = decode_message(body, state->options.tokens_max);
        // A malformed message comes from a peer that hello should have refused; its sender will time out.
        if (message.ok()) state->inbox.push_back({state->transport.instance_of(from), std::move(*message)});
      });
  transport.add_peer_failed_listener(
      [state](PeerId peer, const Failure&) { state->failed_peers.push_back(peer); });
}

HandoffSender::~HandoffSender() = default;

Status HandoffSender::reserve(TimePoint now, PeerId peer, HandoffRequest request,
                              std::vector<BlockId> source_blocks) {
  RETURN_IF_ERROR(state_->check_reserve(peer, request, source_blocks));
  auto transfer = std::make_unique<Outgoing>();
  transfer->key = request.key;
  transfer->sequence = request.sequence;
  transfer->peer = peer;
  transfer->instance = state_->transport.instance_of(peer);
  transfer->tokens = static_cast<uint32_t>(request.ids.size());
  transfer->writer = std::make_unique<TransferWriter>(state_->transport, state_->pool, state_->options,
                                                      std::move(source_blocks), transfer->tokens);
  transfer->reserve = encode_body(request.key, reserve_of(request, state_->capability));
  transfer->reserved = now;
  transfer->next_retry = now + state_->options.retry;
  transfer->deadline = now + state_->options.deadline;
  RETURN_IF_ERROR(state_->transport.send_message(peer, MessageType::kToReceiver,
                                                 std::as_bytes(std::span(transfer->reserve))));
  FAULT_POINT("kv.reserve_sent");
  state_->transfers[request.key] = std::move(transfer);
  return {};
}

Status HandoffSender::State::check_reserve(PeerId peer, const HandoffRequest& request,
                                           const std::vector<BlockId>& blocks) const {
  const auto needed = static_cast<size_t>(pool.layout.blocks_for(static_cast<int64_t>(request.ids.size())));
  if (request.ids.empty() || request.ids.size() > options.tokens_max)
    return fail(Error::kInvalidArgument, "handoff of " + std::to_string(request.ids.size()) + " tokens");
  if (blocks.size() != needed)
    return fail(Error::kInvalidArgument, "handoff with " + std::to_string(blocks.size()) +
                                             " source blocks, " + std::to_string(needed) + " are needed");
  const bool inside =
      std::all_of(blocks.begin(), blocks.end(), [&](BlockId b) { return b.value() < pool.blocks; });
  if (!inside) return fail(Error::kInvalidArgument, "a source block lies outside the pool");
  if (transfers.contains(request.key))
    return fail(Error::kInvalidArgument, "this transfer is under way already");
  if (ended.find(request.key) || ended.knows_later(request.key))
    return fail(Error::kStaleEpoch, "this transfer, or a later epoch of it, has ended here");
  size_t to_peer = 0;
  for (const auto& [key, transfer] : transfers) to_peer += transfer->peer == peer ? 1 : 0;
  if (transfers.size() >= options.transfers_max || to_peer >= options.transfers_per_peer_max)
    return fail(Error::kResourceExhausted, "too many handoffs under way");
  return {};
}

void HandoffSender::layer_ready(TimePoint, HandoffKey key, int32_t layer, uint32_t token_end) {
  if (Outgoing* transfer = state_->find_active(key)) transfer->writer->layer_ready(layer, token_end);
}

void HandoffSender::commit(TimePoint, HandoffKey key, const FirstToken& first) {
  if (Outgoing* transfer = state_->find_active(key)) transfer->first = first;
}

void HandoffSender::abort(TimePoint, HandoffKey key, HandoffReason reason) {
  if (Outgoing* transfer = state_->find_active(key))
    state_->fail_transfer(*transfer, reason, "aborted on the prefill side");
}

void HandoffSender::peer_silent(TimePoint, PeerId peer) {
  state_->fail_peer(peer, HandoffReason::kPeerSilent, "the decode node sends no heartbeats");
}

bool HandoffSender::poll(TimePoint now) {
  State& s = *state_;
  for (PeerId peer : std::exchange(s.failed_peers, {}))
    s.fail_peer(peer, HandoffReason::kPeerLost, "the connection to the decode node failed");
  for (Inbound& inbound : std::exchange(s.inbox, {})) s.handle(now, inbound);
  const size_t share = std::max(s.options.put_bytes_max,
                                s.options.post_bytes_per_poll / std::max<size_t>(s.transfers.size(), 1));
  bool more = false;
  for (auto entry = s.transfers.begin(); entry != s.transfers.end();) {
    more |= s.advance(now, *entry->second, share);
    entry = entry->second->phase == Phase::kEnded ? s.transfers.erase(entry) : std::next(entry);
  }
  if (now >= s.next_renewal) s.renew_leases(now);
  return more;
}

bool HandoffSender::State::advance(TimePoint now, Outgoing& transfer, size_t budget) {
  bool more = false;
  if (transfer.phase == Phase::kWriting) more = write(now, transfer, budget);
  find_deadlines(now, transfer);
  if (transfer.phase == Phase::kDraining) drain(transfer);
  return more;
}

// Posts what is ready, tells D what has landed, and commits when that is everything.
bool HandoffSender::State::write(TimePoint now, Outgoing& transfer, size_t budget) {
  TransferWriter& writer = *transfer.writer;
  if (writer.puts() == 0) transfer.first_post = now;
  const bool more = writer.post(budget);
  std::vector<PlaneRange> flushed = writer.take_flushed();
  if (writer.failure()) {
    fail_transfer(transfer, HandoffReason::kPeerLost, writer.failure()->message);
    return false;
  }
  const bool commit_now =
      transfer.first &&
      (writer.all_flushed() || (CANARY(kCommitUnflushed) && writer.bytes_posted() == writer.bytes_total()));
  if (commit_now) {
    transfer.all_flushed = now;
    FAULT_POINT("kv.flushed");
    transfer.phase = Phase::kCommitting;
    transfer.next_retry = now + options.retry;
    transfer.deadline = now + options.deadline;
    send_commit(transfer);
  } else if (!flushed.empty() && options.digests) {
    msg::ProgressT progress;
    for (const PlaneRange& range : flushed)
      progress.ranges.emplace_back(range.plane, range.first, range.count);
    send(transfer, std::move(progress));
  }
  return more;
}

void HandoffSender::State::send_commit(Outgoing& transfer) {
  msg::CommitT commit;
  commit.bytes = transfer.writer->bytes_total();
  commit.has_digest = options.digests;
  if (options.digests) commit.digest = transfer.writer->digest();
  commit.token = transfer.first->token;
  commit.position = transfer.first->position;
  commit.seed = transfer.first->seed;
  commit.choice = transfer.first->choice;
  send(transfer, std::move(commit));
  FAULT_POINT("kv.commit_sent");
}

void HandoffSender::State::handle(TimePoint now, Inbound& inbound) {
  Outgoing* transfer = find_active(inbound.message.key);
  const auto known = transfers.find(inbound.message.key);
  const bool draining = transfer == nullptr && known != transfers.end();
  if (draining) return;  // it says DRAINED when it is
  const msg::BodyUnion& body = inbound.message.body;
  if (transfer == nullptr) {
    const bool asks =
        body.type == msg::Body::Offer || body.type == msg::Body::Abort || body.type == msg::Body::Status;
    if (asks) answer_ended(inbound.instance, inbound.message.key);
    return;
  }
  if (inbound.instance != transfer->instance) return;
  switch (body.type) {
    case msg::Body::Offer:
      return on_offer(now, *transfer, *body.AsOffer());
    case msg::Body::Ack:
      return on_ack(now, *transfer);
    case msg::Body::Status:
      return on_status(*transfer);
    case msg::Body::Refuse:
      if (transfer->phase == Phase::kReserving)
        fail_transfer(*transfer, static_cast<HandoffReason>(body.AsRefuse()->reason),
                      body.AsRefuse()->message);
      return;
    case msg::Body::Nack:
      return fail_transfer(*transfer, static_cast<HandoffReason>(body.AsNack()->reason),
                           body.AsNack()->message);
    case msg::Body::Abort:
      return fail_transfer(*transfer, static_cast<HandoffReason>(body.AsAbort()->reason),
                           "aborted by the decode node");
    case msg::Body::Alive:
      if (transfer->phase == Phase::kCommitting) send_commit(*transfer);  // D lives and has no COMMIT
      return;
    default:
      return;
  }
}

void HandoffSender::State::on_offer(TimePoint now, Outgoing& transfer, const msg::OfferT& offer) {
  if (transfer.phase != Phase::kReserving) return;  // repeated
  FAULT_POINT("kv.offer_received");
  const auto needed = static_cast<size_t>(pool.layout.blocks_for(transfer.tokens));
  Result<std::vector<BlockId>> blocks = blocks_of(offer.blocks, offer.pool_blocks, needed);
  const bool fits = pool.layout.pool_bytes(offer.pool_blocks) <= static_cast<int64_t>(offer.pool_bytes);
  if (!blocks.ok() || !fits)
    return fail_transfer(transfer, HandoffReason::kProtocol,
                         blocks.ok() ? "OFFER of a pool too small" : blocks.message());
  const MemoryDescriptor memory{offer.pool_base, offer.pool_bytes,
                                std::string(offer.pool_key.begin(), offer.pool_key.end())};
  const Result<RemoteMemoryId> imported = transport.import_memory(transfer.peer, memory);
  if (!imported.ok()) return fail_transfer(transfer, HandoffReason::kPeerLost, imported.message());
  transfer.writer->set_target({transfer.peer, *imported, offer.pool_blocks, std::move(*blocks)});
  transfer.phase = Phase::kWriting;
  transfer.lease = {static_cast<int64_t>(offer.lease_us)};
  transfer.lease_renewed = now;
  next_renewal = std::min(next_renewal, now + Duration{transfer.lease.us / 3});
  report(SenderEvent::Kind::kReserved, transfer);
}

void HandoffSender::State::on_ack(TimePoint now, Outgoing& transfer) {
  // Not idle after the flush would be a bug of the library; STATUS brings the ACK again.
  if (transfer.phase != Phase::kCommitting || !transfer.writer->idle()) return;
  FAULT_POINT("kv.ack_received");
  report(SenderEvent::Kind::kCommitted, transfer);
  events.back().stats = {transfer.writer->bytes_total(), transfer.all_flushed - transfer.first_post,
                         now - transfer.reserved, transfer.writer->puts()};
  release(transfer, {true, HandoffReason::kNone, transfer.writer->bytes_total()});
}

void HandoffSender::State::on_status(Outgoing& transfer) {
  if (CANARY(kNoStatus)) return;
  if (transfer.phase == Phase::kCommitting) return send_commit(transfer);
  send(transfer, msg::AliveT());
}

// Whatever this key was, nothing is written for it here any more: posted puts had ended before it was
// forgotten.
void HandoffSender::State::answer_ended(uint64_t instance, HandoffKey key) {
  msg::DrainedT drained;
  const std::optional<TransferEnd> end = ended.find(key);
  drained.reason = static_cast<uint8_t>(end ? end->reason : HandoffReason::kUnknown);
  const std::string bytes = encode_body(key, drained);
  static_cast<void>(transport.send_message(transport.connection_to(instance), MessageType::kToReceiver,
                                           std::as_bytes(std::span(bytes))));
}

// Stops posting, waits for the flush, says DRAINED. Without a flush that succeeded nothing may be said: D
// then waits for the end of this process or of the connection.
void HandoffSender::State::drain(Outgoing& transfer) {
  transfer.writer->stop();
  if (!transfer.writer->idle() && !CANARY(kDrainedUnflushed)) return;
  if (!transfer.writer->idle()) return send(transfer, msg::DrainedT());
  if (transfer.writer->landed()) {
    msg::DrainedT drained;
    drained.reason = static_cast<uint8_t>(transfer.reason);
    send(transfer, drained);
  }
  release(transfer, {false, transfer.reason, 0});
}

void HandoffSender::State::find_deadlines(TimePoint now, Outgoing& transfer) {
  const bool waits = transfer.phase == Phase::kReserving || transfer.phase == Phase::kCommitting;
  if (transfer.phase == Phase::kWriting && now - transfer.lease_renewed > transfer.lease)
    return fail_transfer(transfer, HandoffReason::kLeaseExpired,
                         "this process could not renew its lease in time");
  if (!waits || now < transfer.next_retry) return;
  if (now >= transfer.deadline && !CANARY(kNoStatus))
    return fail_transfer(
        transfer, HandoffReason::kTimeout,
        transfer.phase == Phase::kReserving ? "no answer to RESERVE" : "no answer to COMMIT");
  transfer.next_retry = now + options.retry;
  if (CANARY(kNoStatus)) return;
  if (transfer.phase == Phase::kCommitting) return send(transfer, msg::StatusT());
  static_cast<void>(transport.send_message(transfer.peer, MessageType::kToReceiver,
                                           std::as_bytes(std::span(transfer.reserve))));
}

void HandoffSender::State::renew_leases(TimePoint now) {
  next_renewal = TimePoint::max();
  std::map<uint64_t, msg::LeaseT> by_instance;
  for (auto& [key, transfer] : transfers) {
    if (transfer->phase != Phase::kWriting && transfer->phase != Phase::kCommitting) continue;
    by_instance[transfer->instance].entries.emplace_back(key.transfer.value(), key.epoch.value());
    transfer->lease_renewed = now;
    next_renewal = std::min(next_renewal, now + Duration{transfer->lease.us / 3});
  }
  for (auto& [instance, lease] : by_instance) {
    const std::string bytes = encode_body(HandoffKey(), std::move(lease));
    static_cast<void>(transport.send_message(transport.connection_to(instance), MessageType::kToReceiver,
                                             std::as_bytes(std::span(bytes))));
  }
}

void HandoffSender::State::fail_transfer(Outgoing& transfer, HandoffReason reason, std::string message) {
  if (transfer.phase >= Phase::kDraining) return;
  transfer.phase = Phase::kDraining;
  transfer.reason = reason;
  transfer.writer->stop();
  report(SenderEvent::Kind::kFailed, transfer);
  events.back().failure = {reason, std::move(message)};
}

void HandoffSender::State::fail_peer(PeerId peer, HandoffReason reason, const std::string& message) {
  for (auto& [key, transfer] : transfers) {
    if (transfer->peer == peer) fail_transfer(*transfer, reason, message);
  }
}

void HandoffSender::State::release(Outgoing& transfer, const TransferEnd& end) {
  transfer.phase = Phase::kEnded;
  ended.insert(transfer.key, end);
  report(SenderEvent::Kind::kReleased, transfer);
}

Outgoing* HandoffSender::State::find_active(HandoffKey key) {
  const auto found = transfers.find(key);
  return found == transfers.end() || found->second->phase >= Phase::kDraining ? nullptr : found->second.get();
}

TimePoint HandoffSender::next_deadline() const {
  TimePoint next = state_->next_renewal;
  for (const auto& [key, transfer] : state_->transfers) {
    const bool waits = transfer->phase == Phase::kReserving || transfer->phase == Phase::kCommitting;
    if (waits) next = std::min(next, transfer->next_retry);
    if (transfer->phase == Phase::kWriting) next = std::min(next, transfer->lease_renewed + transfer->lease);
  }
  return next;
}

std::vector<SenderEvent> HandoffSender::take_events() { return std::exchange(state_->events, {}); }

size_t HandoffSender::active() const { return state_->transfers.size(); }

uint64_t HandoffSender::bytes_completed(HandoffKey key) const {
  const auto found = state_->transfers.find(key);
  return found == state_->transfers.end() ? 0 : found->second->writer->bytes_flushed();
}

}  // namespace penstock
