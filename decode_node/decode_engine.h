// DecodeEngine: the decode role on the engine thread. It grants blocks to prefill nodes and runs colocated
// requests whole.
#pragma once

#include "node/engine_side.h"

namespace penstock {

class DecodeEngine final : public EngineSide {
 public:
  using EngineSide::EngineSide;

  void on_reserve_due(const scheduler::Slice& slice, std::span<const BlockId> blocks) override;
  void on_layer(int32_t, std::span<const scheduler::Slice>) override {}
  void on_handoff_ready(SequenceKey key, int32_t position, TokenId first_token) override;
  void on_reserve_granted(SequenceKey key, std::span<const BlockId> blocks) override;
  void on_refused(SequenceKey key, scheduler::RefuseReason reason, const std::string& message) override;

 protected:
  void start(StartRequest&& request) override;
  void reserve(ReserveAsked&& asked) override;

 private:
  HandoffKey asking_;  // the RESERVE being handled: its answer comes before reserve() returns
  bool is_reserve_ = false;
};

}  // namespace penstock
