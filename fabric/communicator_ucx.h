// Ranks as processes, over UCX: one worker and one endpoint per peer, active messages, eager when small and
// fetched by rendezvous when large.
//
// Make it before other threads start (it goes through the environment, as transport_ucx.h says).
#pragma once

#include <memory>

#include "base/time.h"
#include "fabric/communicator_point_to_point.h"
#include "fabric/rendezvous.h"
#include "fabric/transport_ucx.h"

namespace penstock {

// Meets the other ranks at the rendezvous and connects to all of them. kIncompatible when two ranks' UCX
// settings cannot work together.
[[nodiscard]] Result<std::unique_ptr<PointToPoint>> make_ucx_link(const RankEnvironment& environment,
                                                                  const UcxOptions& options,
                                                                  Duration timeout);

}  // namespace penstock
