#include "kv_transfer/handoff_messages.h"

#include <algorithm>

namespace penstock {
namespace {

constexpr size_t kBytesMax = 64u << 20;
constexpr flatbuffers::uoffset_t kDepthMax = 8, kTablesMax = 64;

bool reason_known(uint8_t reason) { return reason <= static_cast<uint8_t>(HandoffReason::kTimeout); }

// What the verifier cannot know: enum ranges and our limits.
bool body_sane(const wire::handoff::BodyUnion& body, uint32_t tokens_max) {
  using wire::handoff::Body;
  switch (body.type) {
    case Body::NONE:
      return false;
    case Body::Reserve:
      return body.AsReserve()->ids.size() <= tokens_max && body.AsReserve()->stop_ids.size() <= tokens_max;
    case Body::Drained:
      return reason_known(body.AsDrained()->reason);
    case Body::Refuse:
      return reason_known(body.AsRefuse()->reason);
    case Body::Nack:
      return reason_known(body.AsNack()->reason);
    case Body::Abort:
      return reason_known(body.AsAbort()->reason);
    default:
      return true;
  }
}

}  // namespace

std::string encode_message(HandoffKey key, wire::handoff::BodyUnion body) {
  wire::handoff::MessageT message;
  message.transfer = key.transfer.value();
  message.epoch = key.epoch.value();
  message.body = std::move(body);
  flatbuffers::FlatBufferBuilder builder(512);
  wire::handoff::FinishMessageBuffer(builder, wire::handoff::Message::Pack(builder, &message));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

Result<HandoffMessage> decode_message(std::span<const std::byte> bytes, uint32_t tokens_max) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (bytes.size() < 8 || bytes.size() > kBytesMax)
    return fail(Error::kCorrupt, "handoff message of " + std::to_string(bytes.size()) + " bytes");
  flatbuffers::Verifier verifier(data, bytes.size(), kDepthMax, kTablesMax);
  if (!wire::handoff::VerifyMessageBuffer(verifier))
    return fail(Error::kCorrupt, "malformed handoff message");
  wire::handoff::MessageT unpacked;
  wire::handoff::GetMessage(data)->UnPackTo(&unpacked);
  if (!body_sane(unpacked.body, tokens_max))
    return fail(Error::kCorrupt, "handoff message with unknown contents");
  HandoffMessage message;
  message.key = {TransferId(unpacked.transfer), Epoch(unpacked.epoch)};
  message.body = std::move(unpacked.body);
  return message;
}

wire::handoff::ReserveT reserve_of(const HandoffRequest& request, const HandoffCapability& capability) {
  wire::handoff::ReserveT reserve;
  reserve.protocol = capability.protocol;
  reserve.sequence = request.sequence.value();
  reserve.model = capability.model;
  reserve.layout_hash = capability.layout.hash().value();
  reserve.weight_version = capability.weight_version.value();
  reserve.ids = request.ids;
  reserve.prompt_tokens = request.prompt_tokens;
  reserve.temperature = request.sampling.temperature;
  reserve.top_k = request.sampling.top_k;
  reserve.top_p = request.sampling.top_p;
  reserve.min_p = request.sampling.min_p;
  reserve.seed = request.sampling.seed;
  reserve.choice = request.sampling.choice;
  reserve.tokens_max = request.tokens_max;
  reserve.stop_ids = request.stop_ids;
  reserve.ignore_eos = request.ignore_eos;
  reserve.logprobs = request.logprobs;
  reserve.top_logprobs = request.top_logprobs;
  return reserve;
}

HandoffRequest request_of(HandoffKey key, const wire::handoff::ReserveT& reserve) {
  HandoffRequest request;
  request.key = key;
  request.sequence = SequenceId(reserve.sequence);
  request.ids = reserve.ids;
  request.prompt_tokens = reserve.prompt_tokens;
  request.sampling.temperature = reserve.temperature;
  request.sampling.top_k = reserve.top_k;
  request.sampling.top_p = reserve.top_p;
  request.sampling.min_p = reserve.min_p;
  request.sampling.seed = reserve.seed;
  request.sampling.choice = reserve.choice;
  request.tokens_max = reserve.tokens_max;
  request.stop_ids = reserve.stop_ids;
  request.ignore_eos = reserve.ignore_eos;
  request.logprobs = reserve.logprobs;
  request.top_logprobs = reserve.top_logprobs;
  return request;
}

std::vector<wire::handoff::BlockRange> ranges_of(const std::vector<BlockId>& blocks) {
  std::vector<wire::handoff::BlockRange> ranges;
  for (BlockId block : blocks) {
    if (!ranges.empty() && ranges.back().first() + ranges.back().count() == block.value()) {
      ranges.back() = {ranges.back().first(), ranges.back().count() + 1};
    } else {
      ranges.emplace_back(block.value(), 1);
    }
  }
  return ranges;
}

Result<std::vector<BlockId>> blocks_of(const std::vector<wire::handoff::BlockRange>& ranges,
                                       uint32_t pool_blocks, size_t expected) {
  std::vector<BlockId> blocks;
  for (const wire::handoff::BlockRange& range : ranges) {
    if (range.first() >= pool_blocks || range.count() > pool_blocks - range.first() ||
        blocks.size() + range.count() > expected)
      return fail(Error::kCorrupt, "OFFER names blocks outside the pool, or more than were asked for");
    for (uint32_t i = 0; i < range.count(); ++i) blocks.emplace_back(range.first() + i);
  }
  std::vector<BlockId> sorted = blocks;
  std::sort(sorted.begin(), sorted.end());
  const bool twice = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  if (twice || blocks.size() != expected)
    return fail(Error::kCorrupt, "OFFER names " + std::to_string(blocks.size()) + " blocks of " +
                                     std::to_string(expected) + ", or one twice");
  return blocks;
}

}  // namespace penstock
