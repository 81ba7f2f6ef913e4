// Mesh: which rank is which part of DP x PP x TP, and who reduces with whom.
//
// Pure. Ranks count TP fastest, then PP, then DP: neighbours in TP, which talk most, are neighbours on a
// host.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace penstock::trainer {

struct MeshPosition {
  int dp = 0, pp = 0, tp = 0;
  friend bool operator==(const MeshPosition&, const MeshPosition&) = default;
};

class Mesh {
 public:
  Mesh() = default;  // one rank
  // kInvalidArgument names the dimension that is not positive, or `world` where the product does not match
  // it.
  static Result<Mesh> make(int dp, int pp, int tp, int world);

  int dp() const { return dp_; }
  int pp() const { return pp_; }
  int tp() const { return tp_; }
  int ranks() const { return dp_ * pp_ * tp_; }

  MeshPosition position(int rank) const;
  int rank(const MeshPosition& position) const;

  // The ranks, rising, that differ from `rank` in that dimension only; `rank` is among them.
  std::vector<int> dp_group(int rank) const;
  std::vector<int> pp_group(int rank) const;
  std::vector<int> tp_group(int rank) const;

 private:
  int dp_ = 1, pp_ = 1, tp_ = 1;
};

}  // namespace penstock::trainer
