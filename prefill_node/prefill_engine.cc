#include "prefill_node/prefill_engine.h"

#include <utility>

#include "node/sequence_codec.h"

namespace penstock {

void PrefillEngine::start(StartRequest&& request) {
  const SequenceKey key = request.submit.spec.key;
  const auto [entry, added] = live_.try_emplace(key);
  if (added && request.submit.kind == scheduler::SequenceKind::kPrefill) {
    entry->second.handoff = {request.transfer, key.epoch};
    entry->second.decode_peer = std::move(request.decode_peer);
    entry->second.request = handoff_request_of(request);
  }
  engine().handle(std::move(request.submit));
}

void PrefillEngine::on_reserve_due(const scheduler::Slice& slice, std::span<const BlockId> blocks) {
  Live* live = find(slice.key);
  CHECK(live != nullptr);
  live->open = true;
  ports_.transfer.post(OpenHandoff{std::move(live->request),
                                   live->decode_peer,
                                   {blocks.begin(), blocks.end()},
                                   static_cast<uint32_t>(slice.first_position)});
}

void PrefillEngine::on_layer(int32_t layer, std::span<const scheduler::Slice> slices) {
  LayerReady ready{layer, {}};
  for (const scheduler::Slice& slice : slices) {
    const Live* live = find(slice.key);
    if (live == nullptr || !live->open) continue;
    ready.token_ends.emplace_back(live->handoff,
                                  static_cast<uint32_t>(slice.first_position + slice.token_count));
  }
  if (!ready.token_ends.empty()) ports_.transfer.post(std::move(ready));
}

void PrefillEngine::on_handoff_ready(SequenceKey key, int32_t position, TokenId first_token) {
  const Live* live = find(key);
  CHECK(live != nullptr && live->open);
  ports_.transfer.post(CommitHandoff{live->handoff, {first_token, position, 0, 0}});
}

// Nobody reserves at a prefill node: its peers' messages never get here.
void PrefillEngine::on_reserve_granted(SequenceKey, std::span<const BlockId>) { CHECK(false); }
void PrefillEngine::reserve(ReserveAsked&&) { CHECK(false); }

}  // namespace penstock
