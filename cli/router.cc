// penstock router: the HTTP front of a cluster.
#include "router/router.h"

#include <memory>
#include <string>

#include "base/log.h"
#include "cli/command.h"

namespace penstock::cli {
namespace {

struct RouterFlags {
  ConfigFlags config;
  std::string record;
};

Result<int> run(const RouterFlags& flags) {
  ASSIGN_OR_RETURN(const ClusterConfig config, load_config(flags.config));
  if (const auto answered = answer_config_question(flags.config, config)) return *answered;
  ASSIGN_OR_RETURN(const LogLevel level, parse_log_level(config.log.level));
  ASSIGN_OR_RETURN(const auto router,
                   router::Router::start(config, Logger::to_stderr("router", level), flags.record));
  router->handle_signals();
  return router->run();
}

}  // namespace

void add_router_command(CLI::App& app, CommandContext& context) {
  auto flags = std::make_shared<RouterFlags>();
  CLI::App* command = app.add_subcommand("router", "Run the OpenAI-compatible front of a cluster");
  add_config_flags(command, flags->config);
  command->add_option("--record", flags->record,
                      "Write every scheduler event to this file, for `penstock simulate --replay`");
  context.on_run(command, [flags] { return run(*flags); });
}

}  // namespace penstock::cli
