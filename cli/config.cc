// `penstock config`: the configuration in force, or what is wrong with it.
#include <iostream>

#include "cli/command.h"

namespace penstock::cli {

void add_config_command(CLI::App& app, CommandContext& context) {
  auto flags = std::make_shared<ConfigFlags>();
  CLI::App* command =
      app.add_subcommand("config", "Print the configuration in force (file, environment, --set)");
  add_config_flags(command, *flags);
  context.on_run(command, [flags]() -> Result<int> {
    ASSIGN_OR_RETURN(const ClusterConfig config, load_config(*flags));
    flags->print_only = !flags->check_only;
    return answer_config_question(*flags, config).value_or(0);
  });
}

}  // namespace penstock::cli
