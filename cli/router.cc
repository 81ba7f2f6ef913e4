// penstock router: the HTTP front of a cluster.
#include "router/router.h"

#include <memory>

#include "base/log.h"
#include "cli/command.h"

namespace penstock::cli {
namespace {

Result<int> run(const ConfigFlags& flags) {
  ASSIGN_OR_RETURN(const ClusterConfig config, load_config(flags));
  if (const auto answered = answer_config_question(flags, config)) return *answered;
  ASSIGN_OR_RETURN(const LogLevel level, parse_log_level(config.log.level));
  ASSIGN_OR_RETURN(const auto router, router::Router::start(config, Logger::to_stderr("router", level)));
  router->handle_signals();
  return router->run();
}

}  // namespace

void add_router_command(CLI::App& app, CommandContext& context) {
  auto flags = std::make_shared<ConfigFlags>();
  CLI::App* command = app.add_subcommand("router", "Run the OpenAI-compatible front of a cluster");
  add_config_flags(command, *flags);
  context.on_run(command, [flags] { return run(*flags); });
}

}  // namespace penstock::cli
