#include "trainer/mesh.h"

#include <gtest/gtest.h>

namespace penstock::trainer {
namespace {

TEST(Mesh, NeighboursInTpAreNeighboursInRank) {
  const Mesh mesh = Mesh::make(2, 3, 4, 24).value();
  EXPECT_EQ(mesh.tp_group(13), (std::vector<int>{12, 13, 14, 15}));
  EXPECT_EQ(mesh.pp_group(13), (std::vector<int>{13, 17, 21}));
  EXPECT_EQ(mesh.dp_group(13), (std::vector<int>{1, 13}));
}

TEST(Mesh, EveryRankHasOnePositionAndEveryGroupHoldsItsMember) {
  const Mesh mesh = Mesh::make(3, 2, 2, 12).value();
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    EXPECT_EQ(mesh.rank(mesh.position(rank)), rank);
    for (const auto& group : {mesh.dp_group(rank), mesh.pp_group(rank), mesh.tp_group(rank)}) {
      EXPECT_EQ(std::count(group.begin(), group.end(), rank), 1);
      EXPECT_TRUE(std::is_sorted(group.begin(), group.end()));
      for (const int other : group) {
        const MeshPosition a = mesh.position(rank), b = mesh.position(other);
        EXPECT_LE((a.dp != b.dp) + (a.pp != b.pp) + (a.tp != b.tp), 1);
      }
    }
  }
}

TEST(Mesh, WhatCannotBeIsNamed) {
  EXPECT_EQ(Mesh::make(2, 0, 1, 2).message(), "mesh.pp = 0: needs 1 or more");
  EXPECT_EQ(Mesh::make(2, 2, 2, 6).message(), "mesh: dp 2 x pp 2 x tp 2 is 8 ranks, but there are 6");
  EXPECT_EQ(Mesh::make(65536, 65536, 1, 0).message(),
            "mesh: dp 65536 x pp 65536 x tp 1 is 4294967296 ranks, but there are 0");
}

}  // namespace
}  // namespace penstock::trainer
