// Keeps what an engine says, by sequence.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace penstock {

struct RecordingListener final : EngineListener {
  void on_token(const EmittedToken& token) override { tokens[token.key].push_back(token); }
  void on_reserve_due(const scheduler::Slice& slice, std::span<const BlockId> blocks) override {
    reserved[slice.key] = {blocks.begin(), blocks.end()};
  }
  void on_layer(int32_t layer, std::span<const scheduler::Slice> slices) override {
    for (const auto& slice : slices)
      layers[slice.key].emplace_back(layer, slice.first_position + slice.token_count);
  }
  void on_handoff_ready(SequenceKey key, int32_t position, TokenId first_token) override {
    ready[key] = {position, first_token};
  }
  void on_reserve_granted(SequenceKey key, std::span<const BlockId> blocks) override {
    granted[key] = {blocks.begin(), blocks.end()};
  }
  void on_refused(SequenceKey key, scheduler::RefuseReason reason, const std::string& message) override {
    refused[key] = reason;
    refusal_message = message;
  }
  void on_ended(SequenceKey key, EndReason reason, bool handoff_open, const std::string& message) override {
    ended[key] = reason;
    open_at_end[key] = handoff_open;
    if (!message.empty()) end_message = message;
  }
  void on_freed(SequenceKey key) override { freed.push_back(key); }
  void on_step_end() override { ++steps; }

  std::vector<TokenId> ids_of(SequenceKey key) const {
    std::vector<TokenId> ids;
    const auto found = tokens.find(key);
    if (found == tokens.end()) return ids;
    for (const EmittedToken& token : found->second) ids.push_back(token.token);
    return ids;
  }

  std::map<SequenceKey, std::vector<EmittedToken>> tokens;
  std::map<SequenceKey, std::vector<BlockId>> reserved, granted;
  std::map<SequenceKey, std::vector<std::pair<int32_t, int32_t>>> layers;  // (layer, token end)
  std::map<SequenceKey, std::pair<int32_t, TokenId>> ready;
  std::map<SequenceKey, scheduler::RefuseReason> refused;
  std::map<SequenceKey, EndReason> ended;
  std::map<SequenceKey, bool> open_at_end;
  std::vector<SequenceKey> freed;
  std::string refusal_message, end_message;
  int steps = 0;
};

}  // namespace penstock
