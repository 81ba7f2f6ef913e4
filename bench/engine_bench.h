// Speed of the engine on a real model: prefill, decode alone, decode in a batch, beside the machine's read
// bandwidth. What `penstock bench engine` prints.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/dtype.h"
#include "topology/kv_layout.h"

namespace penstock::bench {

struct EngineBenchOptions {
  std::string model;
  DType dtype = DType::kBf16;
  KvDtype kv_dtype = KvDtype::kBf16;
  std::vector<int> threads = {1, 2};
  int prompt_tokens = 512;
  int decode_tokens = 64;
  int batch = 16;
  int repetitions = 5;
  bool busy = false;  // also beside one process that spins
};

// Medians over the repetitions, tokens a second. Steps go through the whole engine: scheduler, model,
// sampling.
struct EngineBenchRow {
  int threads = 0;
  double prefill_toks = 0;
  double decode_b1_toks = 0;
  double decode_batch_toks = 0;
  double decode_b1_busy_toks = 0;  // beside one busy process; 0: not asked for
  double prefill_busy_toks = 0;
  double read_gbps = 0;                // streaming a buffer of weights_bytes, same threads
  double decode_b1_share_of_read = 0;  // of the weights' bytes a second, to read_gbps just before and after
};

struct EngineBenchResult {
  std::string cpu;
  bool amx = false;
  std::string isa;
  int64_t weights_bytes = 0;  // that one decode step reads: without the embedding's row-major copy
  std::vector<EngineBenchRow> rows;
};

[[nodiscard]] Result<EngineBenchResult> run_engine_bench(const EngineBenchOptions& options);

}  // namespace penstock::bench
