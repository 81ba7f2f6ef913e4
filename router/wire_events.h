// Between the words of the wire and the words of the scheduler.
//
// Pure functions.
#pragma once

#include "scheduler/cluster/cluster_events.h"
#include "wire/control.h"

namespace penstock::router {

scheduler::NodeJoined joined_event(NodeId id, const wire::RegisterT& message);
scheduler::NodeLoad load_event(NodeId id, const wire::LoadT& load);
scheduler::TokenArrived token_event(NodeId id, const wire::TokenT& token);
// True when the same sequence may succeed elsewhere.
bool is_retryable(wire::ErrorCode code);
wire::AbortReason abort_reason(scheduler::AbortReason reason);

}  // namespace penstock::router
