// DecodeTransfer: the decode role on the transfer thread: HandoffReceiver between prefill nodes and the
// engine.
#pragma once

#include "kv_transfer/handoff_receiver.h"
#include "node/transfer_side.h"

namespace penstock {

class DecodeTransfer final : public TransferSide {
 public:
  explicit DecodeTransfer(const TransferContext& context);

  void handle(TimePoint now, TransferMessage&& message) override;
  bool poll(TimePoint now) override;
  TimePoint next_deadline() const override { return receiver_.next_deadline(); }
  void peer_silent(TimePoint now, PeerId peer) override;

 private:
  void carry_events();

  TransferContext context_;
  HandoffReceiver receiver_;
};

}  // namespace penstock
