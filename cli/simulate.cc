// `penstock simulate`: clusters on a virtual clock, one a seed, with faults, and every invariant checked at
// every step; or the replay of a router's record through the same scheduler.
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <thread>

#include "cli/command.h"
#include "sim/replay.h"
#include "sim/simulate.h"

namespace penstock::cli {
namespace {

struct SimulateFlags {
  uint64_t seeds = 100;
  uint64_t first = 1;
  int processes = 0;
  std::string replay;
  std::string record;
};

std::string hex(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof(text), "%016" PRIx64, value);
  return text;
}

Result<int> run_replay(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(Error::kNotFound, path + ": cannot be read; give the file that `--record` wrote");
  const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  ASSIGN_OR_RETURN(const sim::ReplayReport report, sim::replay_record(bytes).with_context(path));
  if (!report.difference.empty()) {
    std::cerr << path << ": the scheduler decides otherwise than it did: " << report.difference << '\n';
    return 1;
  }
  if (report.checked == 0) return fail(Error::kCorrupt, path + ": holds no actions to compare with");
  std::cout << "events " << report.events << ", " << report.checked
            << " with the recorded actions, action hash " << hex(report.action_hash) << '\n';
  return 0;
}

Result<int> run_record(uint64_t seed, const std::string& path) {
  std::vector<uint8_t> record;
  const sim::WorldReport report = sim::run_seed(seed, &record);
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(record.data()), static_cast<std::streamsize>(record.size()));
  if (!file.flush()) return fail(Error::kIo, path + ": cannot be written");
  if (report.violation) std::cerr << "seed " << seed << ": " << report.violation->what << '\n';
  std::cout << "seed " << seed << ", " << record.size() << " bytes, action hash " << hex(report.action_hash)
            << '\n';
  return report.violation ? 1 : 0;
}

Result<int> run_simulate(const SimulateFlags& flags) {
  if (!flags.replay.empty()) return run_replay(flags.replay);
  if (!flags.record.empty()) return run_record(flags.first, flags.record);
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const uint64_t wanted =
      flags.processes > 0 ? static_cast<uint64_t>(flags.processes) : static_cast<uint64_t>(cores);
  const bool show = ::isatty(STDERR_FILENO) != 0;
  const auto progress = [&](uint64_t done) {
    if (show) std::cerr << '\r' << done << " of " << flags.seeds << " seeds" << std::flush;
  };
  const auto report =
      sim::run_seeds(flags.first, flags.seeds, static_cast<int>(std::min(wanted, flags.seeds)), progress);
  if (show) std::cerr << "\r\033[K";
  if (!report.failure.empty()) {
    std::cerr << "seed " << report.failed_seed << ": " << report.failure
              << "\nrun it alone with `penstock simulate"
              << " --seeds 1 --first " << report.failed_seed << "`\n";
  }
  std::cout << sim::summary_line(report) << '\n';
  return report.failure.empty() ? 0 : 1;
}

}  // namespace

void add_simulate_command(CLI::App& app, CommandContext& context) {
  auto flags = std::make_shared<SimulateFlags>();
  CLI::App* command =
      app.add_subcommand("simulate", "The schedulers on a virtual clock, with faults; or a replay");
  command->add_option("--seeds", flags->seeds, "How many seeds to run")->check(CLI::Range(1, 100'000'000));
  command->add_option("--first", flags->first, "The first seed");
  command->add_option("--processes", flags->processes, "Processes that share the seeds; 0: one a core")
      ->check(CLI::Range(0, 256));
  CLI::Option* replay = command->add_option(
      "--replay", flags->replay, "Replay what `penstock router --record` wrote and compare the actions");
  command->add_option("--record", flags->record, "Run the first seed alone and write its record")
      ->excludes(replay);
  context.on_run(command, [flags] { return run_simulate(*flags); });
}

}  // namespace penstock::cli
