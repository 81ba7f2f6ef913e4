// Control messages as bytes and back. Pure functions; any thread.
//
// Decoding trusts nothing: verifier, size limits, enum ranges and union members are checked before a field is
// read.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"
#include "wire/schemas/control_generated.h"

namespace penstock::wire {

inline constexpr uint32_t kProtocolVersion = 1;
inline constexpr size_t kControlBytesMax = 64u << 20;  // a 32 MiB body gives fewer ids than this holds
inline constexpr size_t kNameBytesMax = 255;           // node, model and host names
inline constexpr size_t kReasonBytesMax = 4096;
inline constexpr size_t kFrameItemsMax = 65536;  // tokens of one frame, and events of one frame

// The envelope around one body: control_of(RegisterT{...}).
template <typename Body>
ControlT control_of(Body body) {
  ControlT control;
  control.body.Set(std::move(body));
  return control;
}

std::string encode_control(const ControlT& control);

// kCorrupt with the reason when `bytes` is not exactly one well-formed Control with a body of a known kind.
[[nodiscard]] Result<std::unique_ptr<ControlT>> decode_control(std::string_view bytes);

}  // namespace penstock::wire
