// penstock bench engine: tokens a second of the engine on a model, beside the machine's read bandwidth.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/engine_bench.h"
#include "cli/command.h"
#include "cli/model_path.h"

namespace penstock::cli {
namespace {

struct Options {
  bench::EngineBenchOptions bench;
  std::string dtype = "bf16";
  std::string kv_dtype = "bf16";
  bool json = false;
};

nlohmann::ordered_json to_json(const bench::EngineBenchResult& result,
                               const bench::EngineBenchOptions& options) {
  auto list = nlohmann::ordered_json::array();
  for (const bench::EngineBenchRow& row : result.rows) {
    nlohmann::ordered_json object = {{"cpu", result.cpu},
                                     {"amx", result.amx},
                                     {"isa", result.isa},
                                     {"threads", row.threads},
                                     {"prefill512_toks", row.prefill_toks},
                                     {"decode_b1_toks", row.decode_b1_toks},
                                     {"decode_b16_toks", row.decode_batch_toks},
                                     {"read_gbps", row.read_gbps},
                                     {"weights_bytes", result.weights_bytes},
                                     {"decode_b1_share_of_read", row.decode_b1_share_of_read}};
    if (options.busy) {
      object["decode_b1_busy_toks"] = row.decode_b1_busy_toks;
      object["prefill512_busy_toks"] = row.prefill_busy_toks;
    }
    list.push_back(std::move(object));
  }
  return list;
}

Result<int> run(Options options) {
  if (options.dtype != "bf16" && options.dtype != "f32") {
    return fail(Error::kInvalidArgument, "--dtype is bf16 or f32, not \"" + options.dtype + "\"");
  }
  options.bench.dtype = options.dtype == "bf16" ? DType::kBf16 : DType::kF32;
  ASSIGN_OR_RETURN(options.bench.kv_dtype, parse_kv_dtype(options.kv_dtype));
  ASSIGN_OR_RETURN(const bench::EngineBenchResult result, bench::run_engine_bench(options.bench));
  if (options.json) {
    std::printf("%s\n", to_json(result, options.bench).dump(2).c_str());
    return 0;
  }
  std::printf("%s, %s\n", result.cpu.c_str(), result.isa.c_str());
  std::printf("threads  prefill %d  decode b1  decode b%d  read GB/s  b1 of read\n",
              options.bench.prompt_tokens, options.bench.batch);
  for (const bench::EngineBenchRow& row : result.rows) {
    std::printf("%7d  %11.0f  %9.1f  %10.0f  %9.1f  %9.0f%%\n", row.threads, row.prefill_toks,
                row.decode_b1_toks, row.decode_batch_toks, row.read_gbps, 100 * row.decode_b1_share_of_read);
  }
  return 0;
}

}  // namespace

void add_bench_engine_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = bench_group(app)->add_subcommand("engine", "Prefill and decode speed on a model");
  options->bench.model = default_model_path();
  command->add_option("model", options->bench.model,
                      "Model folder; default: PENSTOCK_MODEL or the demo model");
  command->add_option("--dtype", options->dtype, "Weights in memory: bf16 or f32");
  command->add_option("--kv-dtype", options->kv_dtype, "KV cache: bf16 or f32");
  command->add_option("--threads", options->bench.threads, "Thread counts to measure")->delimiter(',');
  command->add_option("--repetitions", options->bench.repetitions, "Medians over so many")
      ->check(CLI::Range(1, 100));
  command->add_flag("--busy", options->bench.busy, "Measure beside one busy process too");
  command->add_flag("--json", options->json, "A JSON list, one object per thread count");
  context.on_run(command, [options] { return run(*options); });
}

}  // namespace penstock::cli
