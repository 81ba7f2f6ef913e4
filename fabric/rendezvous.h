// How ranks find each other: rank 0 listens at MASTER_ADDR:MASTER_PORT, as torchrun has it; every rank brings
// its address and leaves with everybody's.
//
// Blocking, before training starts; any thread. Nothing stays open afterwards.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace penstock {

struct RankEnvironment {
  int rank = 0;
  int world_size = 1;
  std::string master_address = "127.0.0.1";
  uint16_t master_port = 29500;
};

// RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as `lookup` (std::getenv, in a main) gives them; all absent
// is one rank alone.
[[nodiscard]] Result<RankEnvironment> read_rank_environment(
    const std::function<const char*(const char*)>& lookup);

// Everybody's `mine`, by rank. A rank that does not come, comes twice, or has another world size is an error
// that names it, on all ranks.
[[nodiscard]] Result<std::vector<std::string>> exchange_addresses(const RankEnvironment& environment,
                                                                  const std::string& mine, Duration timeout);

}  // namespace penstock
