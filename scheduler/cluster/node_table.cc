#include "scheduler/cluster/node_table.h"

#include <algorithm>

#include "base/check.h"

namespace penstock::scheduler {

namespace {

constexpr double kSmoothing = 0.2;  // weight of the newest measurement

double smooth(double old_value, double new_value) { return old_value + kSmoothing * (new_value - old_value); }

// "field: node has A, cluster has B; " for each field that differs.
class Differences {
 public:
  void compare(const char* field, const std::string& node, const std::string& cluster) {
    if (node == cluster) return;
    if (!text_.empty()) text_ += "; ";
    text_ += std::string(field) + ": node has " + node + ", cluster has " + cluster;
  }
  void compare(const char* field, uint64_t node, uint64_t cluster) {
    compare(field, std::to_string(node), std::to_string(cluster));
  }
  void compare(const char* field, int32_t node, int32_t cluster) {
    compare(field, std::to_string(node), std::to_string(cluster));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

std::optional<std::string> NodeTable::why_incompatible(const NodeJoined& joined,
                                                       const std::string& model) const {
  const Capability& node = joined.capability;
  if (joined.capacity.pool_blocks < 1 || joined.capacity.sequences_max < 1 || node.block_tokens < 1 ||
      node.context_max < 1)
    return "capacity: the node reports an empty KV pool, no sequences, or no context";
  Differences differences;
  if (!model.empty()) differences.compare("model", node.model, model);
  if (nodes_.empty()) {
    if (differences.text().empty()) return std::nullopt;
    return differences.text();
  }
  const Capability& cluster = nodes_.begin()->second.capability;
  if (model.empty()) differences.compare("model", node.model, cluster.model);
  differences.compare("protocol", node.protocol, cluster.protocol);
  differences.compare("weight_version (of weights, config.json and model.dtype)", node.weight_version.value(),
                      cluster.weight_version.value());
  differences.compare("kv_dtype", node.kv_dtype, cluster.kv_dtype);
  differences.compare("block_tokens", node.block_tokens, cluster.block_tokens);
  differences.compare("tensor_parallel", node.tensor_parallel, cluster.tensor_parallel);
  differences.compare("pipeline_parallel", node.pipeline_parallel, cluster.pipeline_parallel);
  differences.compare("layers", node.layers, cluster.layers);
  differences.compare("kv_heads", node.kv_heads, cluster.kv_heads);
  differences.compare("head_dim", node.head_dim, cluster.head_dim);
  differences.compare("vocab", node.vocab, cluster.vocab);
  differences.compare("layout_hash", node.layout_hash.value(), cluster.layout_hash.value());
  if (differences.text().empty()) return std::nullopt;
  return differences.text();
}

void NodeTable::add(const NodeJoined& joined) {
  CHECK_NE(joined.node.value(), 0u);
  ClusterNode node;
  node.id = joined.node;
  node.name = joined.name;
  node.role = joined.role;
  node.capability = joined.capability;
  node.capacity = joined.capacity;
  MeasuredSpeeds speeds;
  speeds.prefill_toks = joined.capacity.prefill_tokens_per_s;
  speeds.decode_b1_toks = joined.capacity.decode_b1_tokens_per_s;
  speeds.decode_bmax_toks = joined.capacity.decode_bmax_tokens_per_s;
  speeds.decode_bmax = joined.capacity.sequences_max;
  node.cost = CostModel::from_measured(speeds);
  CHECK(nodes_.emplace(joined.node, std::move(node)).second);
}

void NodeTable::remove(NodeId node) {
  nodes_.erase(node);
  std::erase_if(pairs_, [node](const auto& p) { return p.first.first == node || p.first.second == node; });
}

void NodeTable::report(const NodeLoad& load) {
  ClusterNode* node = find(load.node);
  if (node == nullptr) return;
  node->full = false;
  node->blocks_quarantined = std::clamp(load.blocks_quarantined, 0, node->capacity.pool_blocks);
  if (load.prefill_tokens_per_s > 0 && node->capacity.prefill_tokens_per_s > 0)
    node->prefill_scale =
        smooth(node->prefill_scale, node->capacity.prefill_tokens_per_s / load.prefill_tokens_per_s);
  const double expected_s = node->cost.decode_step_seconds(load.running);
  if (load.decode_step_s > 0 && load.running > 0 && expected_s > 0)
    node->decode_scale = smooth(node->decode_scale, load.decode_step_s / expected_s);
}

ClusterNode* NodeTable::find(NodeId node) {
  const auto it = nodes_.find(node);
  return it == nodes_.end() ? nullptr : &it->second;
}

const ClusterNode* NodeTable::find(NodeId node) const {
  const auto it = nodes_.find(node);
  return it == nodes_.end() ? nullptr : &it->second;
}

void NodeTable::connect(NodeId prefill, NodeId decode, double bytes_per_s) {
  const ClusterNode* p = find(prefill);
  const ClusterNode* d = find(decode);
  if (p == nullptr || d == nullptr || p->role != NodeRole::kPrefill || d->role != NodeRole::kDecode) return;
  pairs_[{prefill, decode}] = bytes_per_s;
}

void NodeTable::measured(NodeId prefill, NodeId decode, double bytes_per_s) {
  const auto it = pairs_.find({prefill, decode});
  if (it == pairs_.end()) return;
  it->second = it->second > 0 ? smooth(it->second, bytes_per_s) : bytes_per_s;
}

}  // namespace penstock::scheduler
