// Planted bugs: each is one that the tests must catch. Only the tests' own build of this room has them
// (PENSTOCK_CANARIES, tests/kv_transfer/CMakeLists.txt); in the product the macro is `false`.
#pragma once

#ifdef PENSTOCK_CANARIES
namespace penstock {
enum class Canary {
  kNone,
  kReleaseOnExpiry,   // D frees when the lease expires, although P may still write
  kSkipDigest,        // D commits without comparing digests
  kDrainedUnflushed,  // P says DRAINED while puts are in flight
  kCommitUnflushed,   // P says COMMIT while puts are in flight
  kForgetEnded,       // D takes a replayed descriptor for a new one
  kNoStatus,          // nobody asks again when a message is lost
};
inline Canary planted_canary = Canary::kNone;
}  // namespace penstock
#define CANARY(name) (::penstock::planted_canary == ::penstock::Canary::name)
#else
#define CANARY(name) false
#endif
