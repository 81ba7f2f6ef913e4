// penstock node: one serving process of a cluster.
#include <memory>
#include <string>

#include "base/log.h"
#include "cli/command.h"
#include "decode_node/decode_role.h"
#include "prefill_node/prefill_role.h"

namespace penstock::cli {
namespace {

struct NodeOptions {
  ConfigFlags config;
  std::string name;
  std::string role;
};

Result<int> run(const NodeOptions& options) {
  ASSIGN_OR_RETURN(const ClusterConfig config, load_config(options.config));
  if (const auto answered = answer_config_question(options.config, config)) return *answered;
  const NodeConfig* found = config.find_node(options.name);
  if (found == nullptr) {
    std::string names;
    for (const NodeConfig& node : config.nodes) names += (names.empty() ? "" : ", ") + node.name;
    return fail(Error::kNotFound, "no [[node]] named \"" + options.name + "\" in " + options.config.file +
                                      ": it has " + (names.empty() ? "none" : names));
  }
  NodeConfig node = *found;
  if (!options.role.empty()) {
    ASSIGN_OR_RETURN(node.role, parse_node_role(options.role));
  }
  ASSIGN_OR_RETURN(const LogLevel level, parse_log_level(config.log.level));
  const Logger log = Logger::to_stderr(node.name, level);
  const RoleParts role = node.role == NodeRole::kPrefill ? prefill_role() : decode_role();
  RETURN_IF_ERROR(run_node(config, node, role, log));
  return 0;
}

}  // namespace

void add_node_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<NodeOptions>();
  CLI::App* command = app.add_subcommand("node", "Run one prefill or decode node");
  add_config_flags(command, options->config);
  command->add_option("--name", options->name, "Which [[node]] of the file")->required();
  command->add_option("--role", options->role, "prefill or decode; default: the file's");
  context.on_run(command, [options] { return run(*options); });
}

}  // namespace penstock::cli
