// penstock bench handoff: speed of the KV handoff between two processes, beside a bare loop of puts.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/handoff_bench.h"
#include "cli/command.h"
#include "cli/model_path.h"

namespace penstock::cli {
namespace {

struct Options {
  bench::HandoffBenchOptions bench;
  bool json = false;
};

nlohmann::ordered_json to_json(const bench::HandoffBenchResult& r,
                               const bench::HandoffBenchOptions& options) {
  nlohmann::ordered_json object = {{"library", r.library},
                                   {"lanes", r.lanes},
                                   {"prompt_tokens", options.prompt_tokens},
                                   {"bytes", r.bytes},
                                   {"repetitions", options.repetitions},
                                   {"put_gbps", r.put_gbps},
                                   {"put_loop_gbps", r.put_loop_gbps},
                                   {"put_share", r.put_share},
                                   {"reserve_to_ack_gbps", r.reserve_to_ack_gbps},
                                   {"reserve_to_ack_share", r.reserve_to_ack_share},
                                   {"memcpy_gbps", r.memcpy_gbps}};
  if (!options.model.empty()) {
    object["overlap_share"] = r.overlap_share;
    object["prefill_ms"] = r.prefill_ms;
    object["exposed_us"] = r.exposed_us;
    object["threads"] = options.threads;
  }
  return object;
}

Result<int> run(const Options& options) {
  const std::string& model = options.bench.model;
  if (!model.empty() && !std::filesystem::exists(model))
    return fail(Error::kNotFound,
                model +
                    ": no such model folder; name one with --model, or pass --model \"\" to "
                    "leave out the overlap with a real prefill");
  ASSIGN_OR_RETURN(const bench::HandoffBenchResult r, bench::run_handoff_bench(options.bench));
  if (options.json) {
    std::printf("%s\n", to_json(r, options.bench).dump(2).c_str());
    return 0;
  }
  std::printf("%s, lanes %s: %d tokens, %.1f MB\n", r.library.c_str(), r.lanes.c_str(),
              options.bench.prompt_tokens, static_cast<double>(r.bytes) * 1e-6);
  std::printf("memcpy                           %6.2f GB/s\n", r.memcpy_gbps);
  std::printf("bare put loop                    %6.2f GB/s\n", r.put_loop_gbps);
  std::printf("first post to flush complete     %6.2f GB/s  %3.0f %% of the loop\n", r.put_gbps,
              100 * r.put_share);
  std::printf("RESERVE to ACK, digests on       %6.2f GB/s  %3.0f %% of the loop\n", r.reserve_to_ack_gbps,
              100 * r.reserve_to_ack_share);
  if (model.empty()) return 0;
  std::printf("completed when the last layer is ready %3.0f %% of the bytes (prefill %.1f ms, %d threads)\n",
              100 * r.overlap_share, r.prefill_ms, options.bench.threads);
  std::printf("end of prefill to ACK            %6.0f us\n", r.exposed_us);
  return 0;
}

}  // namespace

void add_bench_handoff_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      bench_group(app)->add_subcommand("handoff", "Speed of the KV handoff between two processes");
  options->bench.model = default_model_path();
  command->add_option(
      "--model", options->bench.model,
      "Model folder for the overlap with a prefill; default: PENSTOCK_MODEL or the demo model");
  command->add_option("--threads", options->bench.threads, "Threads of the prefill")
      ->check(CLI::Range(1, 256));
  command->add_option("--tokens", options->bench.prompt_tokens, "Tokens of the prompt")
      ->check(CLI::Range(1, 8192));
  command
      ->add_option("--repetitions", options->bench.repetitions,
                   "Medians over so many, each over its own blocks")
      ->check(CLI::Range(2, 200));
  command->add_option("--transports", options->bench.transports,
                      "UCX transports: posix,tcp,self or tcp,self");
  command->add_flag("--json", options->json, "A JSON object");
  context.on_run(command, [options] { return run(*options); });
}

}  // namespace penstock::cli
