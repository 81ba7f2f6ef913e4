// What the kernel says about processes: who we are, and whether another one has exited.
//
// Any thread; values and RAII only. Exits are seen through pidfds, which a reused pid cannot confuse and
// which count a zombie as exited.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "fabric/transport.h"

namespace penstock {

// Fills host, pid_namespace, pid, start_ticks and a random instance.
[[nodiscard]] Result<TransportIdentity> identify_this_process();

// A pidfd of the process that `identity` names. kUnavailable: it has exited already. kUnsupported: its exits
// cannot be seen from here (other pid namespace, old kernel).
[[nodiscard]] Result<UniqueFd> watch_process(const TransportIdentity& identity);

// True once the process behind a pidfd has exited.
[[nodiscard]] bool has_exited(const UniqueFd& pidfd);

// False once that process, on this kernel and in this pid namespace, has nothing mapped at `address`: it has
// given the memory back, or is exiting, which begins with its memory and ends, maybe seconds later, with
// has_exited(). True when it cannot be told.
[[nodiscard]] bool still_maps(uint32_t pid, uint64_t address);

// A UCX_TLS list with a transport that may map memory of another process. Named are those known not to;
// whatever else is listed counts.
[[nodiscard]] bool may_map_memory(const std::string& transports);

// Both on one kernel, with a transport in the list that maps memory of another process.
[[nodiscard]] bool shared_memory_possible(const TransportIdentity& a, const TransportIdentity& b);

}  // namespace penstock
