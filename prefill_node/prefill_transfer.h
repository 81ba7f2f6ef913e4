// PrefillTransfer: the prefill role on the transfer thread: HandoffSender between the engine's messages and
// the router's events.
#pragma once

#include <map>

#include "kv_transfer/handoff_sender.h"
#include "node/transfer_side.h"

namespace penstock {

class PrefillTransfer final : public TransferSide {
 public:
  explicit PrefillTransfer(const TransferContext& context);

  void handle(TimePoint now, TransferMessage&& message) override;
  bool poll(TimePoint now) override;
  TimePoint next_deadline() const override { return sender_.next_deadline(); }
  void peer_silent(TimePoint now, PeerId peer) override;

 private:
  void open(TimePoint now, OpenHandoff&& message);
  void carry_events();
  void failed(const HandoffKey& key, SequenceId sequence, const HandoffFailure& failure);
  void committed(const SenderEvent& event);

  TransferContext context_;
  HandoffSender sender_;
  std::map<HandoffKey, FirstToken> sampler_;  // seed and choice of open handoffs, for COMMIT
  std::map<HandoffKey, bool> committed_;      // how an ended handoff ended, until its source blocks are free
};

}  // namespace penstock
