#include "cli/command.h"

#include <iostream>

namespace penstock::cli {

void CommandContext::on_run(CLI::App* command, std::function<Result<int>()> action) {
  actions_.push_back({command, std::move(action)});
}

int CommandContext::run() {
  for (Action& action : actions_) {
    if (!action.command->parsed()) continue;
    Result<int> code = action.run();
    if (code.ok()) return *code;
    // "bench engine" for a command inside a group.
    std::string name = action.command->get_name();
    for (CLI::App* group = action.command->get_parent(); group != nullptr && group->get_parent() != nullptr;
         group = group->get_parent())
      name.insert(0, group->get_name() + " ");
    std::cout.flush();
    std::cerr << "penstock " << name << ": " << code.message() << std::endl;
    return 1;
  }
  check_failed(__FILE__, __LINE__, "a parsed command has an action", "");
}

CLI::App* bench_group(CLI::App& app) {
  for (CLI::App* existing : app.get_subcommands([](CLI::App*) { return true; }))
    if (existing->get_name() == "bench") return existing;
  CLI::App* group = app.add_subcommand("bench", "Measure this machine and this build");
  group->require_subcommand(1);
  return group;
}

void add_config_flags(CLI::App* command, ConfigFlags& flags) {
  command->add_option("-c,--config", flags.file, "Cluster file (TOML)");
  command->add_option("--set", flags.sets, "section.key=value, over the file and the environment")
      ->allow_extra_args(false);
  command->add_flag("--check-config", flags.check_only, "Check the configuration and stop");
  command->add_flag("--print-config", flags.print_only, "Print the configuration in force and stop");
}

Result<ClusterConfig> load_config(const ConfigFlags& flags) {
  return load_cluster_config({.file = flags.file, .environment = process_environment(), .sets = flags.sets});
}

std::optional<int> answer_config_question(const ConfigFlags& flags, const ClusterConfig& config) {
  if (flags.print_only) std::cout << print_cluster_config(config);
  if (flags.check_only) std::cerr << (flags.file.empty() ? "defaults" : flags.file) << ": valid" << std::endl;
  if (flags.print_only || flags.check_only) return 0;
  return std::nullopt;
}

}  // namespace penstock::cli
