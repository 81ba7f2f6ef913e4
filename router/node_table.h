// The nodes that the router knows: who is behind which connection, what they last said, which pairs stand.
//
// Owned by the cluster driver, on the router's thread. Decides nothing: the scheduler does.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "scheduler/cluster/cluster_events.h"
#include "wire/control.h"

namespace penstock::router {

struct PairState {
  std::string lanes;
  double put_gbps = 0, memcpy_gbps = 0;
};

struct NodeState {
  NodeId id;
  std::string identity;  // of its connection
  std::string name;
  scheduler::NodeRole role = scheduler::NodeRole::kPrefill;
  bool accepted = false, draining = false;
  std::string peer_address;
  uint64_t incarnation = 0;
  uint32_t pid = 0;
  uint64_t frame_no = 0;  // of the last frame
  TimePoint last_seen;
  scheduler::Capacity capacity;
  wire::LoadT load;
  std::map<NodeId, PairState> pairs;  // on prefill nodes: by decode node
};

class NodeTable {
 public:
  NodeState& add(NodeState state);
  void remove(NodeId id);  // its pairs too
  NodeState* find(NodeId id);
  const NodeState* find(NodeId id) const;
  NodeState* find_identity(const std::string& identity);
  const NodeState* find_other_of_name(const NodeState& node) const;
  std::map<NodeId, NodeState>& all() { return nodes_; }
  const std::map<NodeId, NodeState>& all() const { return nodes_; }
  std::string name_of(NodeId id) const;  // "node 7" when it is gone

  // At least one accepted node of the role that is not draining.
  bool has_role(scheduler::NodeRole role) const;
  bool has_pair() const;
  // What nodes of `role` are told: all accepted nodes of the other role.
  wire::PeersT peers_for(scheduler::NodeRole role) const;

 private:
  std::map<NodeId, NodeState> nodes_;
};

}  // namespace penstock::router
