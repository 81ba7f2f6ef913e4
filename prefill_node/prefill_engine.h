// PrefillEngine: the prefill role on the engine thread. It opens a handoff when RESERVE is due, says which
// layers are ready while later ones compute, and gives the first token to COMMIT.
#pragma once

#include "node/engine_side.h"

namespace penstock {

class PrefillEngine final : public EngineSide {
 public:
  using EngineSide::EngineSide;

  void on_reserve_due(const scheduler::Slice& slice, std::span<const BlockId> blocks) override;
  void on_layer(int32_t layer, std::span<const scheduler::Slice> slices) override;
  void on_handoff_ready(SequenceKey key, int32_t position, TokenId first_token) override;
  void on_reserve_granted(SequenceKey key, std::span<const BlockId> blocks) override;

 protected:
  void start(StartRequest&& request) override;
  void reserve(ReserveAsked&& asked) override;
};

}  // namespace penstock
