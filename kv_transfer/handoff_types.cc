#include "kv_transfer/handoff_types.h"

#include <sstream>

namespace penstock {
namespace {

template <typename Value>
Status must_equal(const char* what, const Value& ours, const Value& theirs) {
  if (ours == theirs) return {};
  std::ostringstream text;
  text << what << " differs: here " << ours << ", there " << theirs;
  return fail(Error::kIncompatible, text.str());
}

}  // namespace

Status check_capability(const HandoffCapability& ours, const HandoffCapability& theirs) {
  RETURN_IF_ERROR(must_equal("handoff protocol", ours.protocol, theirs.protocol));
  RETURN_IF_ERROR(must_equal("model", ours.model, theirs.model));
  RETURN_IF_ERROR(must_equal("weight version", ours.weight_version, theirs.weight_version));
  RETURN_IF_ERROR(must_equal("KV layout", ours.layout.describe(), theirs.layout.describe()));
  RETURN_IF_ERROR(must_equal("KV layout hash", ours.layout.hash(), theirs.layout.hash()));
  RETURN_IF_ERROR(must_equal("tensor parallel size", ours.tensor_parallel, theirs.tensor_parallel));
  RETURN_IF_ERROR(must_equal("pipeline parallel size", ours.pipeline_parallel, theirs.pipeline_parallel));
  RETURN_IF_ERROR(must_equal("context_max", ours.context_max, theirs.context_max));
  return must_equal("vocabulary size", ours.vocab, theirs.vocab);
}

std::string_view handoff_reason_name(HandoffReason reason) {
  constexpr std::string_view kNames[] = {
      "none",        "full",          "no_credit",     "stale_epoch", "consumed", "unknown",
      "wrong_model", "wrong_layout",  "wrong_version", "protocol",    "draining", "cancelled",
      "corrupt",     "lease_expired", "peer_lost",     "peer_silent", "timeout"};
  return kNames[static_cast<size_t>(reason)];
}

Error handoff_reason_error(HandoffReason reason) {
  switch (reason) {
    case HandoffReason::kFull:
    case HandoffReason::kNoCredit:
      return Error::kResourceExhausted;
    case HandoffReason::kStaleEpoch:
    case HandoffReason::kConsumed:
      return Error::kStaleEpoch;
    case HandoffReason::kUnknown:
      return Error::kNotFound;
    case HandoffReason::kWrongModel:
    case HandoffReason::kWrongLayout:
    case HandoffReason::kWrongVersion:
      return Error::kIncompatible;
    case HandoffReason::kProtocol:
      return Error::kInvalidArgument;
    case HandoffReason::kCancelled:
      return Error::kCancelled;
    case HandoffReason::kCorrupt:
      return Error::kCorrupt;
    case HandoffReason::kDraining:
    case HandoffReason::kPeerLost:
    case HandoffReason::kPeerSilent:
      return Error::kUnavailable;
    case HandoffReason::kLeaseExpired:
    case HandoffReason::kTimeout:
      return Error::kDeadlineExceeded;
    case HandoffReason::kNone:
      break;
  }
  return Error::kInternal;
}

}  // namespace penstock
