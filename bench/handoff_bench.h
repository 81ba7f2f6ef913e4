// Speed of the KV handoff between two processes of this machine, beside a bare loop of puts over the same
// addresses. What `penstock bench handoff` prints.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace penstock::bench {

struct HandoffBenchOptions {
  std::string model;  // for the overlap with a real prefill; its folder must exist
  int threads = 1;    // of that prefill
  int prompt_tokens = 512;
  int repetitions = 24;  // over distinct pool blocks
  int prefills = 5;
  std::string transports = "posix,tcp,self";
};

// Medians over the repetitions. GB: 10^9 bytes.
struct HandoffBenchResult {
  std::string library, lanes;
  uint64_t bytes = 0;              // of one handoff
  double put_gbps = 0;             // KV already computed: first post to flush complete
  double put_loop_gbps = 0;        // bare put loop and flush, same addresses, interleaved with the former
  double put_share = 0;            // median of the pairs' ratios
  double reserve_to_ack_gbps = 0;  // RESERVE sent to ACK received, digests on
  double reserve_to_ack_share = 0;
  double memcpy_gbps = 0;    // same bytes into private memory
  double overlap_share = 0;  // of the bytes, flushed when the last layer of a real prefill has its K and V
  double prefill_ms = 0;
  double exposed_us = 0;  // end of the prefill to ACK: what the handoff adds to the time to the first token
};

// Forks one child; call it before this process starts threads.
[[nodiscard]] Result<HandoffBenchResult> run_handoff_bench(const HandoffBenchOptions& options);

}  // namespace penstock::bench
