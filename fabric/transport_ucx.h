// The Transport over UCX 1.13 to 1.23. One context, one worker (thread mode SINGLE), one endpoint per peer
// with error handling in PEER mode.
//
// Settings that are measured to be needed (shared memory that reports a peer's death, tcp segments that are
// not slow) are made here unless the user set them; make the first Transport before other threads start, as
// two of them go through the environment.
#pragma once

#include <memory>
#include <string>

#include "fabric/transport.h"

namespace penstock {

struct UcxOptions {
  // Overridden by UCX_TLS in the environment. Across network namespaces: "tcp,self".
  std::string transports = "posix,tcp,self";
};

// kInternal with UCX's own words when the library refuses; kUnsupported for a version out of range.
[[nodiscard]] Result<std::unique_ptr<Transport>> make_ucx_transport(const UcxOptions& options);

}  // namespace penstock
