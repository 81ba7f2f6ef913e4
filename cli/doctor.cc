// `penstock doctor`: whether this machine can serve, and what to do where it cannot.
#include <iostream>

#include "cli/command.h"
#include "cli/doctor_checks.h"

namespace penstock::cli {
namespace {

Result<int> run_doctor(const ConfigFlags& flags) {
  ASSIGN_OR_RETURN(const ClusterConfig config, load_config(flags));
  if (const auto answered = answer_config_question(flags, config)) return *answered;
  bool fatal = false;
  const auto show = [&](const std::vector<Finding>& findings) {
    for (const Finding& finding : findings) {
      std::cout << format_finding(finding) << std::flush;
      fatal = fatal || finding.severity == Severity::kFatal;
    }
  };
  show(check_fabric(config));  // first: it forks
  show(check_cpu());
  show(check_memory(config));
  show(check_packages());
  show(check_ports(config));
  show(check_model(config));
  return fatal ? 1 : 0;
}

}  // namespace

void add_doctor_command(CLI::App& app, CommandContext& context) {
  auto flags = std::make_shared<ConfigFlags>();
  CLI::App* command =
      app.add_subcommand("doctor", "Check this machine: CPU, KV lanes, memory, packages, ports");
  add_config_flags(command, *flags);
  context.on_run(command, [flags] { return run_doctor(*flags); });
}

}  // namespace penstock::cli
