// The nodes as the cluster scheduler sees them: capabilities, credits, residual work, connected pairs.
//
// Part of ClusterScheduler's state: same thread, same lifetime. Iteration is in the order of ids.
//
// Credits are the router's own account and need no answer from a node: every sequence that a node was given
// counts with the blocks of its length, from Start until the attempt ends there, plus one block of growth.
// The node's report adds what the router cannot know (quarantine). A wrong guess is refused by the node,
// never corrupts it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "scheduler/cluster/cluster_events.h"
#include "topology/cost_model.h"

namespace penstock::scheduler {

struct ClusterNode {
  NodeId id;
  std::string name;
  NodeRole role = NodeRole::kPrefill;
  Capability capability;
  Capacity capacity;
  CostModel cost;
  bool draining = false;
  bool drained = false;                        // NodeDrained was said
  bool full = false;                           // it refused; until its next load report
  int32_t blocks_quarantined = 0;              // as reported
  std::set<SequenceId> sequences;              // with a live attempt here
  int32_t blocks_promised = 0;                 // of those sequences
  int64_t prefill_tokens = 0;                  // of those whose first token has not come
  int32_t decoding = 0;                        // those past their first token
  double prefill_scale = 1, decode_scale = 1;  // measured time / time by `cost`, smoothed

  int32_t blocks_for(int32_t tokens) const {
    return (tokens + capability.block_tokens - 1) / capability.block_tokens;
  }
  // Blocks that a new sequence may count on; below zero when growth overran the estimate.
  int32_t credits() const {
    return capacity.pool_blocks - blocks_quarantined - blocks_promised -
           static_cast<int32_t>(sequences.size());
  }
  // Whether a sequence of so many tokens can start here now / could on the empty node.
  bool has_room_for(int32_t tokens) const {
    return !draining && !full && static_cast<int32_t>(sequences.size()) < capacity.sequences_max &&
           blocks_for(tokens) <= credits();
  }
  bool could_hold(int32_t tokens) const {
    return !draining && tokens < capacity.pool_blocks * capability.block_tokens &&
           tokens < capability.context_max;
  }
  double prefill_seconds(int64_t tokens) const { return prefill_scale * cost.prefill_seconds(tokens); }
  double decode_step_seconds(int64_t batch) const { return decode_scale * cost.decode_step_seconds(batch); }
};

using NodePair = std::pair<NodeId, NodeId>;  // prefill, decode

class NodeTable {
 public:
  // Why the node cannot serve with the others (or with `model`, unless empty); nothing when it can.
  std::optional<std::string> why_incompatible(const NodeJoined& joined, const std::string& model) const;
  void add(const NodeJoined& joined);
  void remove(NodeId node);  // with its pairs
  void report(const NodeLoad& load);

  // Null for unknown ids, 0 among them.
  ClusterNode* find(NodeId node);
  const ClusterNode* find(NodeId node) const;

  void connect(NodeId prefill, NodeId decode, double bytes_per_s);
  void disconnect(NodeId prefill, NodeId decode) { pairs_.erase({prefill, decode}); }
  // A finished handoff measured the link.
  void measured(NodeId prefill, NodeId decode, double bytes_per_s);

  const std::map<NodeId, ClusterNode>& nodes() const { return nodes_; }
  const std::map<NodePair, double>& pairs() const { return pairs_; }  // bytes per second
  std::map<NodeId, ClusterNode>& mutable_nodes() { return nodes_; }

 private:
  std::map<NodeId, ClusterNode> nodes_;
  std::map<NodePair, double> pairs_;
};

}  // namespace penstock::scheduler
