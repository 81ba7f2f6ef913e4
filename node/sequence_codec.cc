#include "node/sequence_codec.h"

#include <cstdint>
#include <string>

namespace penstock {

Result<StartRequest> start_request_of(const wire::StartT& start, int32_t vocab) {
  if (start.ids.empty()) return fail(Error::kInvalidArgument, "start without token ids");
  for (const TokenId id : start.ids) {
    if (id < 0 || id >= vocab) {
      return fail(Error::kInvalidArgument, "token id " + std::to_string(id) +
                                               " is outside the vocabulary of " + std::to_string(vocab));
    }
  }
  if (start.prompt_tokens == 0 || start.prompt_tokens > start.ids.size() || start.tokens_max == 0 ||
      start.tokens_max > static_cast<uint32_t>(INT32_MAX)) {
    return fail(Error::kInvalidArgument, "start with prompt_tokens or tokens_max out of range");
  }
  StartRequest request;
  const bool colocated = start.mode == wire::Mode::Colocated;
  request.transfer = TransferId(start.transfer);
  request.submit.kind = colocated ? scheduler::SequenceKind::kLocal : scheduler::SequenceKind::kPrefill;

  scheduler::SequenceSpec& spec = request.submit.spec;
  spec.key = {SequenceId(start.sequence), Epoch(start.epoch)};
  spec.tokens.assign(start.ids.begin(), start.ids.end());
  spec.prompt_tokens = static_cast<int32_t>(start.prompt_tokens);
  spec.tokens_max = static_cast<int32_t>(start.tokens_max);
  spec.stop_ids.assign(start.stop_ids.begin(), start.stop_ids.end());
  spec.ignore_eos = start.ignore_eos;

  DecodeParams& params = request.submit.params;
  if (start.sampling != nullptr) {
    params.sampling.temperature = start.sampling->temperature;
    params.sampling.top_k = static_cast<int32_t>(start.sampling->top_k);
    params.sampling.top_p = start.sampling->top_p;
    params.sampling.min_p = start.sampling->min_p;
    params.sampling.seed = start.sampling->seed;
    params.sampling.choice = start.sampling->choice;
  }
  params.logprobs = start.logprobs;
  params.top_logprobs = static_cast<int32_t>(start.top_logprobs);
  RETURN_IF_ERROR(validate(params.sampling));
  if (start.top_logprobs > static_cast<uint32_t>(kTopLogprobsMax)) {
    return fail(Error::kInvalidArgument, "top_logprobs is at most " + std::to_string(kTopLogprobsMax));
  }
  return request;
}

HandoffRequest handoff_request_of(const StartRequest& start) {
  const scheduler::SequenceSpec& spec = start.submit.spec;
  HandoffRequest request;
  request.key = {start.transfer, spec.key.epoch};
  request.sequence = spec.key.sequence;
  request.ids = spec.tokens;
  request.prompt_tokens = static_cast<uint32_t>(spec.prompt_tokens);
  request.sampling = start.submit.params.sampling;
  request.tokens_max = static_cast<uint32_t>(spec.tokens_max);
  request.stop_ids = spec.stop_ids;
  request.ignore_eos = spec.ignore_eos;
  request.logprobs = start.submit.params.logprobs;
  request.top_logprobs = static_cast<uint32_t>(start.submit.params.top_logprobs);
  return request;
}

ReserveSequence reserve_sequence_of(const HandoffRequest& request) {
  ReserveSequence reserve;
  scheduler::SequenceSpec& spec = reserve.spec;
  spec.key = sequence_key_of(request.key, request.sequence);
  spec.tokens = request.ids;
  spec.prompt_tokens = static_cast<int32_t>(request.prompt_tokens);
  spec.tokens_max = static_cast<int32_t>(request.tokens_max);
  spec.stop_ids = request.stop_ids;
  spec.ignore_eos = request.ignore_eos;
  reserve.params = {request.sampling, request.logprobs, static_cast<int32_t>(request.top_logprobs)};
  return reserve;
}

}  // namespace penstock
