// Handoff messages as bytes and back: handoff.fbs behind two functions. Pure; any thread.
//
// Decoding trusts nothing: verifier, size limits and reason ranges are checked before anything is used.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "kv_transfer/handoff_types.h"
#include "wire/schemas/handoff_generated.h"

namespace penstock {

struct HandoffMessage {
  HandoffKey key;
  wire::handoff::BodyUnion body;
};

[[nodiscard]] std::string encode_message(HandoffKey key, wire::handoff::BodyUnion body);
template <typename Body>
std::string encode_body(HandoffKey key, Body body) {
  wire::handoff::BodyUnion choice;
  choice.Set(std::move(body));
  return encode_message(key, std::move(choice));
}

// kCorrupt when the bytes are no well-formed message with a known body. `tokens_max` bounds every id list.
[[nodiscard]] Result<HandoffMessage> decode_message(std::span<const std::byte> bytes, uint32_t tokens_max);

[[nodiscard]] wire::handoff::ReserveT reserve_of(const HandoffRequest& request,
                                                 const HandoffCapability& capability);
[[nodiscard]] HandoffRequest request_of(HandoffKey key, const wire::handoff::ReserveT& reserve);

// Blocks in sequence order <-> runs of consecutive ids.
[[nodiscard]] std::vector<wire::handoff::BlockRange> ranges_of(const std::vector<BlockId>& blocks);
// kCorrupt when an id is outside the pool, appears twice, or their number is not `expected`.
[[nodiscard]] Result<std::vector<BlockId>> blocks_of(const std::vector<wire::handoff::BlockRange>& ranges,
                                                     uint32_t pool_blocks, size_t expected);

}  // namespace penstock
