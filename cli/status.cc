// `penstock status`: nodes, roles, running requests, KV use, pairs and the last handoff of a running cluster.
#include <iostream>

#include "cli/cluster_status.h"
#include "cli/command.h"
#include "cli/http_client.h"

namespace penstock::cli {
namespace {

struct StatusOptions {
  ConfigFlags config;
  std::string admin;
  bool json = false;
};

Result<int> run_status(const StatusOptions& options) {
  ASSIGN_OR_RETURN(const ClusterConfig config, load_config(options.config));
  if (const auto answered = answer_config_question(options.config, config)) return *answered;
  const std::string address = options.admin.empty() ? config.router.admin : options.admin;
  auto admin = parse_host_port(address);
  if (!admin.ok()) return std::move(admin).with_context("--admin " + address).failure();
  const Duration silence_max = Duration::from_ms(3000);
  if (options.json) {
    ASSIGN_OR_RETURN(const HttpResponse response,
                     http_request({.server = *admin, .target = "/admin/status", .silence_max = silence_max}));
    std::cout << response.body << std::endl;
    return response.status == 200 ? 0 : 1;
  }
  auto status = fetch_cluster_status(*admin, silence_max);
  if (!status.ok())
    return fail(
        status.code(),
        status.message() + ": is the cluster running? Name its file with -c, or the address with --admin");
  std::cout << format_cluster_status(*status);
  return 0;
}

}  // namespace

void add_status_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<StatusOptions>();
  CLI::App* command =
      app.add_subcommand("status", "Nodes, roles, running requests and KV use of a running cluster");
  add_config_flags(command, options->config);
  command->add_option("--admin", options->admin,
                      "HOST:PORT of the router's admin listener, over the cluster file");
  command->add_flag("--json", options->json, "The router's own answer");
  context.on_run(command, [options] { return run_status(*options); });
}

}  // namespace penstock::cli
