// Planted bugs, for the tests of the tests: the simulator's seeds must catch each (tests/sim/canary_test.cc).
//
// In the product planted() is a constant false and costs nothing. Only the library built with
// PENSTOCK_CANARY, which no product target links, can switch one on.
#pragma once

namespace penstock::scheduler {

enum class Canary {
  kNone,
  kFreeLeasedOnAbort,    // batch: an aborted reservation's blocks go straight back to the pool
  kFreeSourceOnAbort,    // batch: a prefill's blocks go back although the handoff still reads them
  kSkipAfterPreemption,  // batch: a recomputed sequence feeds a wrong token
  kIgnoreHandoffEnded,   // batch: blocks stay leased or quarantined for ever
  kForgetDeduplication,  // cluster: a token delivered before is delivered again
  kAcceptStaleEpoch,     // cluster: tokens of a superseded attempt count
  kIgnoreGap,            // cluster: a missing token is skipped
  kForgetAborts,         // cluster: nodes are never told that an attempt is over
  kLoseQueuedReplay,     // cluster: a replay that finds no node at once is dropped
  kDoubleFinish,         // cluster: a client that leaves after the end gets a second end
};

#ifdef PENSTOCK_CANARY
inline Canary canary = Canary::kNone;
inline bool planted(Canary which) { return canary == which; }
#else
constexpr bool planted(Canary) { return false; }
#endif

}  // namespace penstock::scheduler
