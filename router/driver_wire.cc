// What nodes say, turned into events; and what is sent to them.
#include <algorithm>

#include "router/cluster_driver.h"
#include "router/wire_events.h"

namespace penstock::router {

void ClusterDriver::on_message(wire::FromNode from) {
  if (const auto* message = from.message->body.AsRegister()) {
    on_register(from.identity, *message);
    return;
  }
  NodeState* node = nodes_.find_identity(from.identity);
  if (node == nullptr) {
    // It registered with an earlier life of this router, or was given up for dead.
    refuse(from.identity, "not registered here; register again", false);
    return;
  }
  node->last_seen = clock_.now();
  if (const auto* frame = from.message->body.AsFrame()) {
    on_frame(*node, *frame);
    return;
  }
  log_.warn("unexpected control message", "node", node->id, "kind",
            static_cast<int>(from.message->body.type));
}

void ClusterDriver::on_register(const std::string& identity, const wire::RegisterT& message) {
  // The same life registering again has dropped everything itself: it needs no refusal, which would only make
  // it register once more.
  if (const NodeState* same = nodes_.find_identity(identity)) forget(same->id, "registered again");
  if (const std::string reason = refusal(message); !reason.empty()) {
    refuse(identity, reason, true);
    return;
  }
  NodeState state;
  state.id = NodeId(++last_node_);
  state.identity = identity;
  state.name = message.name;
  state.peer_address = message.peer_address;
  state.incarnation = message.incarnation;
  state.pid = message.pid;
  state.last_seen = clock_.now();
  const scheduler::NodeJoined joined = joined_event(state.id, message);
  state.role = joined.role;
  state.capacity = joined.capacity;
  nodes_.add(std::move(state));
  post(joined);
  // The node that speaks now is the one that counts, once it has been found fit: an older life of this name
  // is over.
  const NodeState* accepted = nodes_.find(joined.node);
  if (accepted == nullptr) return;
  if (const NodeState* older = nodes_.find_other_of_name(*accepted)) replace(*older, accepted->pid);
}

// What the router itself can tell; nodes are compared with each other by the scheduler.
std::string ClusterDriver::refusal(const wire::RegisterT& message) const {
  const wire::CapabilityT& node = *message.capability;
  const auto differs = [](const std::string& what, const auto& theirs, const auto& ours) {
    std::ostringstream out;
    out << what << ": the node has " << theirs << ", this router " << ours;
    return out.str();
  };
  if (message.protocol != wire::kProtocolVersion)
    return differs("protocol", message.protocol, wire::kProtocolVersion);
  if (node.model != model_.name()) return differs("model", node.model, model_.name());
  if (node.vocab != static_cast<uint64_t>(model_.vocab_size()))
    return differs("vocabulary size", node.vocab, model_.vocab_size());
  if (node.context_max < static_cast<uint64_t>(model_.context_max()))
    return differs("context_max", node.context_max, model_.context_max());
  return "";
}

void ClusterDriver::on_frame(NodeState& node, const wire::FrameT& frame) {
  const NodeId id = node.id;
  if (frame.frame_no != node.frame_no + 1) {
    lose(id, "frame " + std::to_string(node.frame_no + 1) + " is missing: frame " +
                 std::to_string(frame.frame_no) + " came");
    return;
  }
  node.frame_no = frame.frame_no;
  node.load = *frame.load;
  const double total = static_cast<double>(frame.load->free_blocks) + frame.load->held_blocks +
                       frame.load->leased_blocks + frame.load->quarantined_blocks;
  if (total > 0) metrics_.set_kv_usage(node.name, 1.0 - frame.load->free_blocks / total);
  metrics_.set_preemptions(node.name, static_cast<double>(frame.load->preemptions));
  post(load_event(id, *frame.load));
  for (const auto& token : frame.tokens) on_token(id, *token);
  for (const wire::EventUnion& event : frame.events) {
    NodeState* still = nodes_.find(id);  // an event may have cost the node its place
    if (still == nullptr) return;
    on_event(*still, event);
  }
}

void ClusterDriver::on_token(NodeId node, const wire::TokenT& token) {
  const auto found = sequences_.find(SequenceId(token.sequence));
  const scheduler::TokenArrived event = token_event(node, token);
  if (found != sequences_.end() && found->second.epoch == event.epoch &&
      token.position >= found->second.ids.size() &&
      found->second.arrived.size() < static_cast<size_t>(options_.policy.reorder_max) + 1) {
    GeneratedToken generated;
    generated.token = token.token;
    generated.logprob = token.logprob;
    generated.is_stop_id = token.end_reason == wire::EndReason::Stop;
    for (const wire::TopLogprob& other : token.top) generated.top.push_back({other.token(), other.logprob()});
    found->second.arrived.emplace(event.position, std::move(generated));
  }
  post(event);
}

void ClusterDriver::on_event(NodeState& node, const wire::EventUnion& event) {
  if (const auto* done = event.AsHandoffDone()) {
    on_handoff_done(node.id, *done);
  } else if (const auto* refused = event.AsReserveRefused()) {
    log_.info("reserve refused", "sequence", refused->sequence, "epoch", refused->epoch, "prefill", node.name,
              "reason", refused->reason);
    post(scheduler::ReserveRefused{node.id, SequenceId(refused->sequence), Epoch(refused->epoch)});
  } else if (const auto* failed = event.AsSequenceFailed()) {
    log_.warn("sequence failed", "sequence", failed->sequence, "epoch", failed->epoch, "node", node.name,
              "code", error_name(static_cast<Error>(failed->code)), "message", failed->message);
    post(scheduler::SequenceFailed{node.id, SequenceId(failed->sequence), Epoch(failed->epoch),
                                   is_retryable(failed->code), failed->message});
  } else if (const auto* aborted = event.AsAborted()) {
    log_.debug("aborted", "sequence", aborted->sequence, "epoch", aborted->epoch, "node", node.name);
  } else if (const auto* up = event.AsPairUp()) {
    on_pair_up(node, *up);
  } else if (const auto* down = event.AsPairDown()) {
    const NodeId peer(down->peer);
    const bool is_prefill = node.role == scheduler::NodeRole::kPrefill;
    const NodeId prefill = is_prefill ? node.id : peer, decode = is_prefill ? peer : node.id;
    log_.warn("pair down", "prefill", nodes_.name_of(prefill), "decode", nodes_.name_of(decode), "reason",
              down->reason);
    if (NodeState* owner = nodes_.find(prefill)) owner->pairs.erase(decode);
    post(scheduler::PairDown{prefill, decode});
  } else if (event.AsDraining() != nullptr) {
    log_.info("node draining", "node", node.id, "name", node.name);
    node.draining = true;
    post(scheduler::DrainRequested{node.id});
  }
}

void ClusterDriver::on_handoff_done(NodeId node, const wire::HandoffDoneT& done) {
  const auto record = std::find_if(handoffs_.rbegin(), handoffs_.rend(), [&](const HandoffRecord& r) {
    return r.transfer.value() == done.transfer;
  });
  if (record != handoffs_.rend()) {
    record->bytes = done.bytes;
    record->transfer_us = done.transfer_us;
    record->reserve_to_ack_us = done.reserve_to_ack_us;
    metrics_.handoff_bytes.add(static_cast<double>(done.bytes));
    metrics_.handoff_seconds.observe(static_cast<double>(done.transfer_us) * 1e-6);
  }
  post(scheduler::HandoffDone{node, SequenceId(done.sequence), Epoch(done.epoch),
                              static_cast<int64_t>(done.bytes),
                              Duration{static_cast<int64_t>(done.transfer_us)}});
}

void ClusterDriver::on_pair_up(NodeState& node, const wire::PairUpT& up) {
  NodeState* peer = nodes_.find(NodeId(up.peer));
  if (peer == nullptr || peer->role == node.role) {
    log_.warn("pair with an unknown node", "node", node.name, "peer", up.peer);
    return;
  }
  NodeState& prefill = node.role == scheduler::NodeRole::kPrefill ? node : *peer;
  const NodeState& decode = node.role == scheduler::NodeRole::kPrefill ? *peer : node;
  prefill.pairs[decode.id] = {up.lanes, up.put_gbps, up.memcpy_gbps};
  log_.info("pair up", "prefill", prefill.name, "decode", decode.name, "lanes", up.lanes, "put_gbps",
            up.put_gbps, "memcpy_gbps", up.memcpy_gbps);
  constexpr double kBytesPerGb = 1e9;
  post(scheduler::PairUp{prefill.id, decode.id, up.put_gbps * kBytesPerGb});
}

void ClusterDriver::lose(NodeId id, const std::string& reason) {
  const NodeState* node = nodes_.find(id);
  if (node == nullptr) return;
  // Should it still live, it drops what it holds for us and starts anew.
  const std::string identity = node->identity;
  forget(id, reason);
  refuse(identity, reason, false);
}

// For good: two living processes of one name would otherwise take the place from each other for ever.
void ClusterDriver::replace(const NodeState& node, uint32_t new_pid) {
  const std::string identity = node.identity, name = node.name;
  const std::string by = "replaced by process " + std::to_string(new_pid);
  forget(node.id, by);
  refuse(identity, by + ", which registered as " + name + " too: give every node a name of its own", true);
}

void ClusterDriver::forget(NodeId id, const std::string& reason) {
  const NodeState* node = nodes_.find(id);
  if (node == nullptr) return;
  log_.warn("node lost", "node", id, "name", node->name, "reason", reason);
  metrics_.nodes_lost.add();
  nodes_.remove(id);
  post(scheduler::NodeLost{id});
  announce_peers();
}

void ClusterDriver::refuse(const std::string& identity, const std::string& reason, bool final) {
  if (final) log_.error("node refused", "identity", identity, "reason", reason);
  wire::RegisteredT answer;
  answer.accepted = false;
  answer.reason = reason;
  answer.final = final;
  const Status sent = send_(identity, wire::control_of(std::move(answer)));
  if (!sent.ok()) log_.debug("refusal not sent", "identity", identity, "error", sent.message());
}

void ClusterDriver::send_to(NodeId id, const wire::ControlT& message) {
  const NodeState* node = nodes_.find(id);
  if (node == nullptr) return;
  const Status sent = send_(node->identity, message);
  // Nothing may be skipped silently: a node that missed a message is a node that is lost.
  if (!sent.ok()) lose(id, "cannot be reached: " + sent.message());
}

void ClusterDriver::announce_peers() {
  std::vector<NodeId> ids;
  for (const auto& [id, node] : nodes_.all()) {
    if (node.accepted) ids.push_back(id);
  }
  for (const NodeId id : ids) {
    if (const NodeState* node = nodes_.find(id)) send_to(id, wire::control_of(nodes_.peers_for(node->role)));
  }
}

}  // namespace penstock::router
