#include "trainer/mesh.h"

#include <string>

#include "base/check.h"

namespace penstock::trainer {

Result<Mesh> Mesh::make(int dp, int pp, int tp, int world) {
  const std::pair<const char*, int> sizes[] = {{"dp", dp}, {"pp", pp}, {"tp", tp}};
  for (const auto& [name, size] : sizes) {
    if (size < 1)
      return fail(Error::kInvalidArgument,
                  std::string("mesh.") + name + " = " + std::to_string(size) + ": needs 1 or more");
  }
  const int64_t product = int64_t{dp} * pp * tp;
  if (product != world) {
    return fail(Error::kInvalidArgument, "mesh: dp " + std::to_string(dp) + " x pp " + std::to_string(pp) +
                                             " x tp " + std::to_string(tp) + " is " +
                                             std::to_string(product) + " ranks, but there are " +
                                             std::to_string(world));
  }
  Mesh mesh;
  mesh.dp_ = dp;
  mesh.pp_ = pp;
  mesh.tp_ = tp;
  return mesh;
}

MeshPosition Mesh::position(int rank) const {
  CHECK(rank >= 0 && rank < ranks());
  return {rank / (tp_ * pp_), rank / tp_ % pp_, rank % tp_};
}

int Mesh::rank(const MeshPosition& p) const {
  CHECK(p.dp >= 0 && p.dp < dp_ && p.pp >= 0 && p.pp < pp_ && p.tp >= 0 && p.tp < tp_);
  return (p.dp * pp_ + p.pp) * tp_ + p.tp;
}

std::vector<int> Mesh::dp_group(int rank) const {
  MeshPosition p = position(rank);
  std::vector<int> group;
  for (p.dp = 0; p.dp < dp_; ++p.dp) group.push_back(this->rank(p));
  return group;
}

std::vector<int> Mesh::pp_group(int rank) const {
  MeshPosition p = position(rank);
  std::vector<int> group;
  for (p.pp = 0; p.pp < pp_; ++p.pp) group.push_back(this->rank(p));
  return group;
}

std::vector<int> Mesh::tp_group(int rank) const {
  MeshPosition p = position(rank);
  std::vector<int> group;
  for (p.tp = 0; p.tp < tp_; ++p.tp) group.push_back(this->rank(p));
  return group;
}

}  // namespace penstock::trainer
