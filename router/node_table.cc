#include "router/node_table.h"

#include <algorithm>

namespace penstock::router {

NodeState& NodeTable::add(NodeState state) {
  const NodeId id = state.id;
  return nodes_.insert_or_assign(id, std::move(state)).first->second;
}

void NodeTable::remove(NodeId id) {
  nodes_.erase(id);
  for (auto& [other, node] : nodes_) node.pairs.erase(id);
}

NodeState* NodeTable::find(NodeId id) {
  const auto found = nodes_.find(id);
  return found == nodes_.end() ? nullptr : &found->second;
}

const NodeState* NodeTable::find(NodeId id) const {
  const auto found = nodes_.find(id);
  return found == nodes_.end() ? nullptr : &found->second;
}

NodeState* NodeTable::find_identity(const std::string& identity) {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(),
                                  [&](auto& entry) { return entry.second.identity == identity; });
  return found == nodes_.end() ? nullptr : &found->second;
}

const NodeState* NodeTable::find_other_of_name(const NodeState& node) const {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& entry) {
    return entry.second.name == node.name && entry.first != node.id;
  });
  return found == nodes_.end() ? nullptr : &found->second;
}

std::string NodeTable::name_of(NodeId id) const {
  const NodeState* node = find(id);
  return node == nullptr ? "node " + std::to_string(id.value()) : node->name;
}

bool NodeTable::has_role(scheduler::NodeRole role) const {
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& entry) {
    return entry.second.accepted && !entry.second.draining && entry.second.role == role;
  });
}

bool NodeTable::has_pair() const {
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& entry) {
    const NodeState& prefill = entry.second;
    if (!prefill.accepted || prefill.draining) return false;
    return std::any_of(prefill.pairs.begin(), prefill.pairs.end(), [&](const auto& pair) {
      const NodeState* decode = find(pair.first);
      return decode != nullptr && decode->accepted && !decode->draining;
    });
  });
}

wire::PeersT NodeTable::peers_for(scheduler::NodeRole role) const {
  wire::PeersT peers;
  for (const auto& [id, node] : nodes_) {
    if (!node.accepted || node.role == role) continue;
    auto peer = std::make_unique<wire::PeerT>();
    peer->node_id = id.value();
    peer->name = node.name;
    peer->role = node.role == scheduler::NodeRole::kPrefill ? wire::Role::Prefill : wire::Role::Decode;
    peer->peer_address = node.peer_address;
    peer->incarnation = node.incarnation;
    peers.peers.push_back(std::move(peer));
  }
  return peers;
}

}  // namespace penstock::router
