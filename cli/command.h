// What a subcommand of `penstock` is made of.
//
// A subcommand NAME is one file cli/NAME.cc that defines `void add_NAME_command(CLI::App&, CommandContext&)`,
// one line in cli/commands.inc and one in cli/CMakeLists.txt:
//
//   void add_tokenize_command(CLI::App& app, CommandContext& context) {
//     auto options = std::make_shared<TokenizeOptions>();
//     CLI::App* command = app.add_subcommand("tokenize", "Text to token ids and back, JSON lines");
//     command->add_option("model", options->model, "Model folder")->required();
//     context.on_run(command, [options] { return run_tokenize(*options); });
//   }
//
// Exit codes: what the action returns (0: done), 1 for a Failure, 2 for flags that do not parse. Failures are
// printed once, by main, as `penstock NAME: message`. Standard output carries a command's own output alone.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "topology/cluster_config.h"

namespace penstock::cli {

class CommandContext {
 public:
  explicit CommandContext(std::string program) : program_(std::move(program)) {}
  // This executable's path, for starting children.
  const std::string& program() const { return program_; }
  // What `command` does once its flags are parsed; only the chosen command's action runs.
  void on_run(CLI::App* command, std::function<Result<int>()> action);

  // For main: runs the action of the parsed command and returns the exit code.
  int run();

 private:
  struct Action {
    CLI::App* command;
    std::function<Result<int>()> run;
  };
  std::string program_;
  std::vector<Action> actions_;
};

// The group `penstock bench`, made on first use: bench_engine.cc adds `engine` to it, bench_handoff.cc
// `handoff`.
[[nodiscard]] CLI::App* bench_group(CLI::App& app);

// Flags of every command that reads a cluster file: -c/--config, --set, --check-config, --print-config.
struct ConfigFlags {
  std::string file;
  std::vector<std::string> sets;
  bool check_only = false;
  bool print_only = false;
};
void add_config_flags(CLI::App* command, ConfigFlags& flags);
[[nodiscard]] Result<ClusterConfig> load_config(const ConfigFlags& flags);
// After loading: answers --check-config or --print-config and gives the exit code; nothing when neither was
// asked.
[[nodiscard]] std::optional<int> answer_config_question(const ConfigFlags& flags,
                                                        const ClusterConfig& config);

}  // namespace penstock::cli
