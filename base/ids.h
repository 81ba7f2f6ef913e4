// Strong integer types: an id of one kind never passes for another, nor for a count.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <ostream>

namespace penstock {

// An opaque integer. Comparable and hashable; arithmetic is on value(), where it shows.
template <typename Tag, typename Rep>
class StrongId {
 public:
  using Representation = Rep;
  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  friend constexpr auto operator<=>(StrongId, StrongId) = default;
  friend std::ostream& operator<<(std::ostream& out, StrongId id) { return out << +id.value_; }

 private:
  Rep value_ = 0;
};

using NodeId = StrongId<struct NodeIdTag, uint32_t>;  // given by the router at registration; 0: none
using SequenceId =
    StrongId<struct SequenceIdTag, uint64_t>;  // one choice of one request; given by the router
using TransferId = StrongId<struct TransferIdTag, uint64_t>;  // one KV handoff; given by the router
using Epoch = StrongId<struct EpochTag, uint32_t>;  // attempt number of a sequence, from 1; replays raise it
using BlockId = StrongId<struct BlockIdTag, uint32_t>;  // KV block within one node's pool
using WeightVersion = StrongId<struct WeightVersionTag, uint64_t>;
using LayoutHash = StrongId<struct LayoutHashTag, uint64_t>;  // equal hashes: KV bytes mean the same thing
using TokenId = int32_t;  // plain: it is indexed and compared with model data

}  // namespace penstock

template <typename Tag, typename Rep>
struct std::hash<penstock::StrongId<Tag, Rep>> {
  size_t operator()(penstock::StrongId<Tag, Rep> id) const noexcept { return std::hash<Rep>{}(id.value()); }
};
