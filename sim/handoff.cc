// The KV handoff of simulated nodes: the states of DESIGN 4, with every message liable to be lost, repeated
// or late.
#include <algorithm>

#include "sim/node.h"
#include "sim/world.h"

namespace penstock::sim {

using namespace scheduler;  // NOLINT: the vocabulary of this file is the scheduler's
using Kind = PeerMessage::Kind;

namespace {
constexpr Duration kRetry = Duration::from_ms(300);
constexpr Duration kLease = Duration::from_ms(3000);
constexpr int kReserveTries = 6;
constexpr double kBlockBytes = 16384;
}  // namespace

void SimNode::send(int node, PeerMessage message) {
  message.from = index_;
  message.from_incarnation = incarnation_;
  world_.to_peer(index_, node, std::move(message));
}

void SimNode::reply(const PeerMessage& to, Kind kind) {
  PeerMessage message;
  message.kind = kind;
  message.key = to.key;
  send(to.from, std::move(message));
}

void SimNode::on_peer(const PeerMessage& message) {
  switch (message.kind) {
    case Kind::kReserve:
      return on_reserve(message);
    case Kind::kOffer:
      return on_offer(message);
    case Kind::kRefused:
      if (const auto it = senders_.find(message.key); it != senders_.end() && !it->second.offered) {
        frame_.events.push_back(ReserveRefused{id_, message.key.sequence, message.key.epoch});
        stop_sender(message.key);
      }
      return;
    case Kind::kCommit:
      return on_commit(message);
    case Kind::kAck:
      if (const auto it = senders_.find(message.key); it != senders_.end() && it->second.commit_sent)
        end_sender(message.key, true);
      return;
    case Kind::kNak:
    case Kind::kAbort:
      if (senders_.contains(message.key)) return stop_sender(message.key);
      return reply(message, Kind::kDrained);  // nothing posted, nothing to wait for
    case Kind::kDrained:
      if (const auto it = receivers_.find(message.key); it != receivers_.end()) writer_done(message.key);
      return;
  }
}

void SimNode::on_peer_died(int index, uint32_t incarnation) {
  std::vector<SequenceKey> ended;
  for (const auto& [key, sender] : senders_) {
    const bool same = !sender.offered || sender.decode_incarnation == incarnation;
    if (sender.decode_node == index && same) ended.push_back(key);
  }
  for (const SequenceKey key : ended) end_sender(key, false);
  ended.clear();
  for (const auto& [key, receiver] : receivers_)
    if (receiver.prefill_node == index && receiver.prefill_incarnation == incarnation) ended.push_back(key);
  for (const SequenceKey key : ended) writer_done(key);  // its process has exited: it writes no more
}

// ---- P ----------------------------------------------------------------------------------------------------

void SimNode::open_handoff(SequenceKey key) {
  Sender sender;
  sender.decode_node = decode_node_of_.at(key);
  const auto blocks = batch_->blocks_of(key);
  sender.source.assign(blocks.begin(), blocks.end());
  sender.generation = ++generations_;
  senders_[key] = sender;
  ask_reserve(key, sender.generation, kReserveTries);
}

void SimNode::ask_reserve(SequenceKey key, uint64_t generation, int tries) {
  const auto it = senders_.find(key);
  if (it == senders_.end() || it->second.generation != generation || it->second.offered ||
      it->second.stopping)
    return;
  if (tries == 0) return stop_sender(key);
  PeerMessage reserve;
  reserve.kind = Kind::kReserve;
  reserve.key = key;
  reserve.spec =
      world_.spec_of(key, static_cast<int32_t>(it->second.prefilled ? batch_->tokens_of(key).size() - 1
                                                                    : batch_->tokens_of(key).size()));
  send(it->second.decode_node, std::move(reserve));
  later(kRetry, [this, key, generation, tries] { ask_reserve(key, generation, tries - 1); });
}

void SimNode::on_offer(const PeerMessage& offer) {
  const auto it = senders_.find(offer.key);
  if (it == senders_.end()) return reply(offer, Kind::kDrained);  // an offer nobody waits for any more
  Sender& sender = it->second;
  if (sender.offered || sender.stopping) return;
  if (offer.blocks.size() != sender.source.size())
    return world_.violate(5, "offer of another size than the prompt");
  sender.offered = true;
  sender.decode_incarnation = offer.from_incarnation;
  sender.target = offer.blocks;
  post_writes(offer.key, sender);
}

// A block goes out once its KV is complete; the last, partial one with the end of the prompt.
void SimNode::post_writes(SequenceKey key, Sender& sender) {
  if (!sender.offered || sender.stopping) return;
  const auto full = static_cast<size_t>(sender.computed / plan_.batch.block_tokens);
  const size_t ready = sender.prefilled ? sender.source.size() : std::min(full, sender.source.size());
  const double block_s = slow_link_ * kBlockBytes / plan_.link_bytes_per_s;
  for (; sender.posted < ready; ++sender.posted) {
    const auto in_flight = static_cast<double>(sender.posted + 1 - sender.landed);
    later(Duration::from_seconds(block_s * in_flight),
          [this, key, generation = sender.generation, index = sender.posted] {
            write_landed(key, generation, index);
          });
  }
  commit_when_flushed(key, sender);
}

void SimNode::write_landed(SequenceKey key, uint64_t generation, size_t index) {
  const auto it = senders_.find(key);
  if (it == senders_.end() || it->second.generation != generation)
    return world_.violate(4, "a posted write outlived its handoff");
  Sender& sender = it->second;
  if (memory_[sender.source[index].value()] != key)
    return world_.violate(4, "a source block was reused under a pending write");
  world_.put(sender.decode_node, sender.decode_incarnation, key, sender.target[index]);
  ++sender.landed;
  if (sender.stopping) {
    if (sender.landed == sender.posted) end_sender(key, false);
  } else {
    commit_when_flushed(key, sender);
  }
}

void SimNode::carry_out(const HandoffReady& ready) {
  Sender& sender = senders_.at(ready.key);
  sender.prefilled = true;
  sender.first_token = ready.first_token;
  post_writes(ready.key, sender);
}

void SimNode::commit_when_flushed(SequenceKey key, Sender& sender) {
  if (sender.commit_sent || !sender.prefilled || !sender.offered || sender.landed < sender.source.size())
    return;
  sender.commit_sent = true;
  send_commit(key, sender.generation);
}

// Repeated until D answers or dies: only D knows whether it was committed.
void SimNode::send_commit(SequenceKey key, uint64_t generation) {
  const auto it = senders_.find(key);
  if (it == senders_.end() || it->second.generation != generation || it->second.stopping) return;
  PeerMessage commit;
  commit.kind = Kind::kCommit;
  commit.key = key;
  commit.first_token = it->second.first_token;
  send(it->second.decode_node, std::move(commit));
  later(kRetry, [this, key, generation] { send_commit(key, generation); });
}

// Posts nothing more; ends when what was posted has landed.
void SimNode::stop_sender(SequenceKey key) {
  Sender& sender = senders_.at(key);
  sender.stopping = true;
  if (sender.landed == sender.posted) end_sender(key, false);
}

void SimNode::end_sender(SequenceKey key, bool committed) {
  const auto it = senders_.find(key);
  const int decode_node = it->second.decode_node;
  const bool posted_all = it->second.landed == it->second.posted;
  const auto bytes = static_cast<int64_t>(kBlockBytes * static_cast<double>(it->second.source.size()));
  // Writes to a dead process may still be on their way here; their source must stand until they are through.
  if (!posted_all) {
    it->second.stopping = true;
    return;
  }
  senders_.erase(it);
  if (committed)
    frame_.events.push_back(HandoffDone{id_, key.sequence, key.epoch, bytes, Duration::from_ms(5)});
  else {
    PeerMessage drained;
    drained.kind = Kind::kDrained;
    drained.key = key;
    send(decode_node, std::move(drained));
  }
  step(HandoffEnded{key, committed});
}

// ---- D ----------------------------------------------------------------------------------------------------

void SimNode::on_reserve(const PeerMessage& reserve) {
  const SequenceKey key = reserve.key;
  if (const auto it = receivers_.find(key); it != receivers_.end()) {
    if (it->second.aborting) return reply(reserve, Kind::kAbort);
    const auto blocks = batch_->blocks_of(key);  // asked again: the same offer
    PeerMessage offer;
    offer.kind = Kind::kOffer;
    offer.key = key;
    offer.blocks.assign(blocks.begin(), blocks.end());
    return send(reserve.from, std::move(offer));
  }
  if (committed_.contains(key) || id_ == NodeId()) return reply(reserve, Kind::kNak);
  if (started_.contains(key)) return reply(reserve, Kind::kNak);  // its Abort was faster
  receivers_[key] = {reserve.from, reserve.from_incarnation, false, ++generations_};
  step(Reserve{reserve.spec});
  if (batch_->blocks_of(key).empty()) {
    receivers_.erase(key);
    refused_.erase(key);
    reply(reserve, Kind::kRefused);
  }
}

void SimNode::carry_out(const ReserveGranted& granted) {
  const Receiver& receiver = receivers_.at(granted.key);
  PeerMessage offer;
  offer.kind = Kind::kOffer;
  offer.key = granted.key;
  offer.blocks.assign(granted.blocks.begin(), granted.blocks.end());
  send(receiver.prefill_node, std::move(offer));
  later(kLease,
        [this, key = granted.key, generation = receiver.generation] { expire_lease(key, generation); });
}

void SimNode::on_commit(const PeerMessage& commit) {
  const SequenceKey key = commit.key;
  if (committed_.contains(key)) return reply(commit, Kind::kAck);
  const auto it = receivers_.find(key);
  if (it == receivers_.end()) return reply(commit, Kind::kNak);
  if (it->second.aborting) {
    step(KvCommitted{key, commit.first_token});  // too late, but the writer is done
    return reply(commit, Kind::kNak);
  }
  for (const BlockId block : batch_->blocks_of(key))
    if (memory_[block.value()] != key) return world_.violate(4, "COMMIT came before its writes");
  receivers_.erase(it);
  committed_.insert(key);
  step(KvCommitted{key, commit.first_token});
  reply(commit, Kind::kAck);
}

// The lease ends the sequence here; the blocks stay out of the pool until the writer is known to be done.
void SimNode::expire_lease(SequenceKey key, uint64_t generation) {
  const auto it = receivers_.find(key);
  if (it == receivers_.end() || it->second.generation != generation || it->second.aborting) return;
  report_failed(key);
  step(Abort{key});
}

void SimNode::ask_abort(SequenceKey key, uint64_t generation) {
  const auto it = receivers_.find(key);
  if (it == receivers_.end() || it->second.generation != generation) return;
  PeerMessage abort;
  abort.kind = Kind::kAbort;
  abort.key = key;
  send(it->second.prefill_node, std::move(abort));
  later(kRetry, [this, key, generation] { ask_abort(key, generation); });
}

void SimNode::writer_done(SequenceKey key) {
  receivers_.erase(key);
  step(HandoffEnded{key, false});
}

void SimNode::remote_write(SequenceKey key, BlockId block) {
  const auto blocks = batch_->blocks_of(key);
  const BlockState state = batch_->pool().state(block);
  const bool owned = std::find(blocks.begin(), blocks.end(), block) != blocks.end();
  if (!owned || (state != BlockState::kLeased && state != BlockState::kQuarantined))
    return world_.violate(4, "a late writer hit a block that is not its own");
  memory_[block.value()] = key;
}

}  // namespace penstock::sim
