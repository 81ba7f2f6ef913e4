// Runs seeds and sums them up: what `penstock simulate` and the tests call.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/world.h"

namespace penstock::sim {

// One world, in this process.
[[nodiscard]] WorldReport run_seed(uint64_t seed, std::vector<uint8_t>* record = nullptr);

struct SeedsReport {
  uint64_t seeds = 0;  // that held
  WorldReport sum;     // counts over all seeds
  uint64_t failed_seed = 0;
  std::string failure;  // empty: every seed held; else which invariant broke, when and how
};

// Seeds first .. first + count - 1 over `processes` children, so that a failed CHECK names its seed too.
// Each child stops at its first failure. `progress`, if given, hears now and then how many seeds are done.
[[nodiscard]] SeedsReport run_seeds(uint64_t first, uint64_t count, int processes,
                                    const std::function<void(uint64_t done)>& progress = {});

// "1000 seeds held: 230123 requests (...), ... " in one line.
[[nodiscard]] std::string summary_line(const SeedsReport& report);

}  // namespace penstock::sim
