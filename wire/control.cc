#include "wire/control.h"

#include <cmath>

namespace penstock::wire {
namespace {

bool in_range(Role v) { return v <= Role::MAX; }
bool in_range(Mode v) { return v <= Mode::MAX; }
bool in_range(EndReason v) { return v <= EndReason::MAX; }
bool in_range(AbortReason v) { return v <= AbortReason::MAX; }
bool in_range(ErrorCode v) { return v <= ErrorCode::MAX; }

// Each returns what is wrong, or nullptr.
const char* problem(const RegisterT& m) {
  if (m.name.empty() || m.name.size() > kNameBytesMax) return "register: name is empty or too long";
  if (!in_range(m.role)) return "register: unknown role";
  if (m.capability == nullptr || m.capacity == nullptr) return "register: capability or capacity missing";
  if (m.capability->model.size() > kNameBytesMax || m.capability->kv_dtype.size() > kNameBytesMax)
    return "register: model or kv_dtype too long";
  if (m.peer_address.size() > kNameBytesMax) return "register: peer_address too long";
  for (const float speed :
       {m.capacity->prefill_toks, m.capacity->decode_b1_toks, m.capacity->decode_bmax_toks}) {
    if (!std::isfinite(speed) || speed < 0) return "register: speed is not a finite number >= 0";
  }
  return nullptr;
}

const char* problem(const EventUnion& event) {
  if (event.value == nullptr) return "frame: event of an unknown kind";
  if (const auto* failed = event.AsSequenceFailed()) {
    if (!in_range(failed->code)) return "frame: unknown error code";
    if (failed->message.size() > kReasonBytesMax) return "frame: message too long";
  }
  if (const auto* refused = event.AsReserveRefused(); refused && refused->reason.size() > kReasonBytesMax)
    return "frame: reason too long";
  if (const auto* down = event.AsPairDown(); down && down->reason.size() > kReasonBytesMax)
    return "frame: reason too long";
  if (const auto* up = event.AsPairUp()) {
    if (up->lanes.size() > kReasonBytesMax) return "frame: lanes too long";
    if (!std::isfinite(up->put_gbps) || !std::isfinite(up->memcpy_gbps))
      return "frame: bandwidth is not finite";
  }
  return nullptr;
}

const char* problem(const FrameT& m) {
  if (m.load == nullptr) return "frame: load missing";
  if (!std::isfinite(m.load->prefill_toks) || !std::isfinite(m.load->decode_toks))
    return "frame: speed is not finite";
  if (m.tokens.size() > kFrameItemsMax || m.events.size() > kFrameItemsMax) return "frame: too many items";
  for (const auto& token : m.tokens) {
    if (token == nullptr || !in_range(token->end_reason)) return "frame: unknown end reason";
  }
  for (const EventUnion& event : m.events) {
    if (const char* what = problem(event)) return what;
  }
  return nullptr;
}

const char* problem(const PeersT& m) {
  if (m.peers.size() > kFrameItemsMax) return "peers: too many";
  for (const auto& peer : m.peers) {
    if (peer == nullptr || !in_range(peer->role)) return "peers: unknown role";
    if (peer->name.size() > kNameBytesMax || peer->peer_address.size() > kNameBytesMax)
      return "peers: name or address too long";
  }
  return nullptr;
}

const char* problem(const StartT& m) {
  if (!in_range(m.mode)) return "start: unknown mode";
  if (m.sampling == nullptr) return "start: sampling missing";
  if (m.ids.empty() || m.prompt_tokens == 0 || m.prompt_tokens > m.ids.size())
    return "start: prompt_tokens and ids disagree";
  return nullptr;
}

const char* problem(const ControlT& control) {
  const BodyUnion& body = control.body;
  if (body.value == nullptr) return "body missing or of an unknown kind";
  switch (body.type) {
    case Body::Register:
      return problem(*body.AsRegister());
    case Body::Frame:
      return problem(*body.AsFrame());
    case Body::Registered:
      return body.AsRegistered()->reason.size() > kReasonBytesMax ? "registered: reason too long" : nullptr;
    case Body::Peers:
      return problem(*body.AsPeers());
    case Body::Start:
      return problem(*body.AsStart());
    case Body::Abort:
      return in_range(body.AsAbort()->reason) ? nullptr : "abort: unknown reason";
    case Body::Heartbeat:
    case Body::Drain:
      return nullptr;
    case Body::NONE:
      break;
  }
  return "body missing or of an unknown kind";
}

}  // namespace

std::string encode_control(const ControlT& control) {
  flatbuffers::FlatBufferBuilder builder(1024);
  FinishControlBuffer(builder, Control::Pack(builder, &control));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

Result<std::unique_ptr<ControlT>> decode_control(std::string_view bytes) {
  if (bytes.size() > kControlBytesMax)
    return fail(Error::kCorrupt, "control message of " + std::to_string(bytes.size()) +
                                     " bytes; the limit is " + std::to_string(kControlBytesMax));
  // The buffer's own header (root offset, identifier) must be there before anything reads it.
  if (bytes.size() < 8) return fail(Error::kCorrupt, "control message is cut short");
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (!ControlBufferHasIdentifier(data)) return fail(Error::kCorrupt, "not a control message (identifier)");
  flatbuffers::Verifier verifier(data, bytes.size());
  if (!VerifyControlBuffer(verifier))
    return fail(Error::kCorrupt, "control message fails flatbuffers verification");
  auto control = UnPackControl(data);
  if (const char* what = problem(*control)) return fail(Error::kCorrupt, what);
  return control;
}

}  // namespace penstock::wire
