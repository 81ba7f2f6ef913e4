// Nodes, pairs, and what each node is charged for.
#include <algorithm>

#include "base/check.h"
#include "scheduler/cluster/cluster_state.h"

namespace penstock::scheduler {

void ClusterScheduler::State::handle(const NodeJoined& event) {
  if (auto reason = table.why_incompatible(event, policy.model)) {
    actions.emplace_back(NodeRefused{event.node, std::move(*reason)});
    return;
  }
  table.add(event);
  actions.emplace_back(NodeAccepted{event.node});
  refresh_serviceable();
}

void ClusterScheduler::State::handle(const NodeLost& event) {
  const ClusterNode* node = table.find(event.node);
  if (node == nullptr) return;
  const std::vector<SequenceId> touched(node->sequences.begin(), node->sequences.end());
  std::vector<SequenceId> broken;
  for (const SequenceId id : touched) {
    ClusterSequence& sequence = sequences.at(id);
    const bool was_prefill = event.node == sequence.prefill;
    // D has the KV and the client the first token: nothing was lost with P.
    const bool survives =
        was_prefill && sequence.handed_off && sequence.next_position > sequence.start_tokens;
    if (was_prefill)
      release_prefill(sequence);
    else
      release_decode(sequence);
    if (!survives) broken.push_back(id);
  }
  table.remove(event.node);
  for (const SequenceId id : broken) replay(sequences.at(id));
  refresh_serviceable();
}

void ClusterScheduler::State::handle(const PairUp& event) {
  table.connect(event.prefill, event.decode, event.bytes_per_s);
  refresh_serviceable();
}

// Handoffs on the way are reported by the nodes themselves (SequenceFailed) or run into their deadline.
void ClusterScheduler::State::handle(const PairDown& event) {
  table.disconnect(event.prefill, event.decode);
  refresh_serviceable();
}

void ClusterScheduler::State::handle(const NodeLoad& event) {
  table.report(event);
  pump_due = true;
}

void ClusterScheduler::State::handle(const DrainRequested& event) {
  ClusterNode* node = table.find(event.node);
  if (node == nullptr || node->draining) return;
  node->draining = true;
  refresh_serviceable();
}

void ClusterScheduler::State::report_drained() {
  for (auto& [id, node] : table.mutable_nodes()) {
    if (!node.draining || node.drained || !node.sequences.empty()) continue;
    node.drained = true;
    actions.emplace_back(NodeDrained{id});
  }
}

// ---- Accounts ---------------------------------------------------------------------------------------------

void ClusterScheduler::State::charge(ClusterSequence& sequence, const Placement& placement) {
  sequence.start_tokens = sequence.length();
  sequence.first_token_seen = false;
  sequence.handed_off = false;
  sequence.decode = placement.decode;
  ClusterNode& decode = *table.find(placement.decode);
  sequence.decode_blocks = decode.blocks_for(sequence.start_tokens);
  decode.blocks_promised += sequence.decode_blocks;
  decode.sequences.insert(sequence.id);
  sequence.prefill = placement.prefill;
  if (ClusterNode* prefill = table.find(placement.prefill)) {
    sequence.prefill_blocks = prefill->blocks_for(sequence.start_tokens);
    prefill->blocks_promised += sequence.prefill_blocks;
    prefill->sequences.insert(sequence.id);
    sequence.prefill_charged = true;
  }
  sequence.prefilling_on = placement.prefill != NodeId() ? placement.prefill : placement.decode;
  table.find(sequence.prefilling_on)->prefill_tokens += sequence.start_tokens;
}

void ClusterScheduler::State::end_prefill_charge(ClusterSequence& sequence) {
  if (ClusterNode* node = table.find(sequence.prefilling_on)) node->prefill_tokens -= sequence.start_tokens;
  sequence.prefilling_on = NodeId();
}

// The prefill is over wherever it ran; D has one more in its batch.
void ClusterScheduler::State::first_token(ClusterSequence& sequence) {
  sequence.first_token_seen = true;
  end_prefill_charge(sequence);
  if (ClusterNode* decode = table.find(sequence.decode)) ++decode->decoding;
}

void ClusterScheduler::State::release_prefill(ClusterSequence& sequence) {
  if (!sequence.prefill_charged) return;
  sequence.prefill_charged = false;
  ClusterNode& node = *table.find(sequence.prefill);
  node.blocks_promised -= sequence.prefill_blocks;
  node.sequences.erase(sequence.id);
  if (sequence.prefilling_on == sequence.prefill) end_prefill_charge(sequence);
  pump_due = true;
}

void ClusterScheduler::State::release_decode(ClusterSequence& sequence) {
  if (ClusterNode* node = table.find(sequence.decode)) {
    node->blocks_promised -= sequence.decode_blocks;
    node->sequences.erase(sequence.id);
    if (sequence.first_token_seen) --node->decoding;
    if (sequence.prefilling_on == sequence.decode) end_prefill_charge(sequence);
    pump_due = true;
  }
  sequence.decode = NodeId();
}

void ClusterScheduler::State::grow(ClusterSequence& sequence) {
  ClusterNode* node = table.find(sequence.decode);
  if (node == nullptr) return;
  const int32_t blocks = std::max(node->blocks_for(sequence.length()), sequence.decode_blocks);
  node->blocks_promised += blocks - sequence.decode_blocks;
  sequence.decode_blocks = blocks;
}

void ClusterScheduler::State::check_accounts() const {
  struct Account {
    int32_t blocks = 0, decoding = 0, count = 0;
    int64_t prefill_tokens = 0;
  };
  std::map<NodeId, Account> accounts;
  int32_t queued = 0, fresh = 0;
  int64_t tokens_queued = 0;
  for (const auto& [id, sequence] : sequences) {
    CHECK_LE(static_cast<int32_t>(sequence.held.size()), policy.reorder_max);
    CHECK_LE(sequence.next_position, sequence.prompt_tokens + sequence.tokens_max);
    if (sequence.queued) {
      ++queued;
      tokens_queued += sequence.length();
      if (sequence.epoch == Epoch()) ++fresh;
      CHECK(!sequence.prefill_charged && sequence.decode == NodeId());
      continue;
    }
    CHECK(table.find(sequence.decode) != nullptr);  // whoever runs, runs on a living node
    CHECK(sequence.timer != TimePoint::max());      // and cannot be forgotten
    Account& decode = accounts[sequence.decode];
    ++decode.count;
    decode.blocks += sequence.decode_blocks;
    if (sequence.first_token_seen) ++decode.decoding;
    if (sequence.prefill_charged) {
      Account& prefill = accounts[sequence.prefill];
      ++prefill.count;
      prefill.blocks += sequence.prefill_blocks;
    }
    if (sequence.prefilling_on != NodeId())
      accounts[sequence.prefilling_on].prefill_tokens += sequence.start_tokens;
  }
  CHECK_EQ(queued, static_cast<int32_t>(queue.size()));
  CHECK_EQ(fresh, queued_new);
  CHECK_EQ(tokens_queued, queued_tokens);
  CHECK_LE(queued_new, policy.queue_len_max);
  for (const auto& [id, node] : table.nodes()) {
    const Account& account = accounts[id];
    CHECK_EQ(account.count, static_cast<int32_t>(node.sequences.size()));
    CHECK_EQ(account.blocks, node.blocks_promised);
    CHECK_EQ(account.decoding, node.decoding);
    CHECK_EQ(node.prefill_tokens, account.prefill_tokens);
    CHECK_LE(account.count, node.capacity.sequences_max);
  }
}

}  // namespace penstock::scheduler
