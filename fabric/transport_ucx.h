// The Transport over UCX 1.13 to 1.23. One context, one worker (thread mode SINGLE), one endpoint per peer
// with error handling in PEER mode.
//
// Settings that are measured to be needed (shared memory that reports a peer's death, tcp segments that are
// not slow) are made here unless the user set them; make the first Transport before other threads start, as
// two of them go through the environment.
//
// What UCX 1.13.1 does not survive, and how much of it is left:
// - Importing memory that its owner, over shared memory, no longer has: unpacking the key opens /proc/PID/fd;
//   when that is gone UCX frees a key it never made, and the process dies. import_memory() first asks the
//   pidfd and /proc/PID/maps. What is left: an owner that lets go in the microseconds between that question
//   and UCX's open() takes this process with it. A killed owner frees its memory before it closes its files,
//   so the larger the memory, the less likely. Whoever gives a region back closes the connection first.
//   Import once, early, on the first heartbeat (as node/ does), not under a handoff.
// - A peer that goes, over tcp, while the connection is still being made: assertions of UCX's wireup
//   (wireup_ep.c pending_count, tcp_ep.c CTX_TYPE_TX) abort this process. A matter of milliseconds, which
//   UCX's API does not show; heartbeats both ways prove that it is over. A lone first message may also stay
//   queued until another follows it: the deadline of the first reply covers that.
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
