// `penstock up`: a whole cluster of one cluster file on this machine, router and nodes as child processes.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <set>

#include "cli/command.h"
#include "cli/free_port.h"
#include "cli/supervisor.h"

namespace penstock::cli {
namespace {

struct UpOptions {
  ConfigFlags config;
  bool free_ports = false;
  int64_t ready_timeout_s = 120;
  std::vector<std::string> command;
};

// Replaces each address of the router that is taken (or has port 0) by the next free one; without
// --free-ports a taken one is an error. Children learn of a change by --set.
Status settle_ports(ClusterConfig& config, UpOptions& options) {
  const std::pair<const char*, std::string*> addresses[] = {{"router.listen", &config.router.listen},
                                                            {"router.control", &config.router.control},
                                                            {"router.admin", &config.router.admin}};
  std::set<uint16_t> taken;
  for (const auto& [key, address] : addresses) {
    ASSIGN_OR_RETURN(const HostPort wanted, parse_host_port(*address));
    if (!options.free_ports && wanted.port != 0) {
      if (Status free = check_port_free(wanted); !free.ok())
        return fail(free.code(), std::string(key) + " " + free.message() +
                                     ": stop what listens there, set another port with --set " + key +
                                     "=HOST:PORT, or add --free-ports");
      continue;
    }
    ASSIGN_OR_RETURN(const HostPort settled, next_free_port(wanted, taken));
    taken.insert(settled.port);
    if (settled == wanted) continue;
    *address = settled.text();
    options.config.sets.push_back(std::string(key) + "=" + *address);
  }
  return {};
}

Status check_servable(const ClusterConfig& config) {
  bool prefill = false, decode = false;
  for (const NodeConfig& node : config.nodes) (node.role == NodeRole::kPrefill ? prefill : decode) = true;
  if (!decode || (!prefill && config.cluster.disaggregate == Disaggregate::kAlways))
    return fail(Error::kInvalidArgument, std::string("no [[node]] with role ") +
                                             (decode ? "prefill" : "decode") +
                                             ": add one to the cluster file");
  if (config.model.path.empty())
    return fail(Error::kInvalidArgument,
                "model.path is empty: name a Hugging Face folder, such as `penstock "
                "import` writes, with --set model.path=DIR");
  struct stat found;
  if (::stat((config.model.path + "/config.json").c_str(), &found) != 0)
    return fail(Error::kNotFound, "model.path " + config.model.path +
                                      ": no config.json there: name a Hugging Face folder, such as `penstock "
                                      "import` writes");
  return {};
}

Result<std::string> make_log_dir(const std::string& wanted) {
  if (wanted.empty()) {
    const char* parent = std::getenv("TMPDIR");
    std::string name = std::string(parent == nullptr ? "/tmp" : parent) + "/penstock-logs-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr)
      return fail(Error::kIo, name + ": " + std::strerror(errno) + ": set log.dir");
    return name;
  }
  std::error_code error;
  std::filesystem::create_directories(wanted, error);
  if (error || ::access(wanted.c_str(), W_OK) != 0)
    return fail(Error::kIo, "log.dir " + wanted + ": " + (error ? error.message() : std::strerror(errno)) +
                                ": name a folder that can be written");
  return wanted;
}

void print_addresses(const ClusterConfig& config, const std::string& log_dir) {
  const std::string base = "http://" + config.router.listen;
  std::cout << base << "\n"
            << "curl " << base
            << "/v1/chat/completions -H 'Content-Type: application/json' -d '{\"model\": \""
            << config.served_model_name()
            << "\", \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'\n"
            << "metrics: http://" << config.router.admin << "/metrics\n"
            << "logs: " << log_dir << "\n"
            << "stop: Ctrl-C, or kill " << ::getpid() << std::endl;
}

Result<int> run_up(const std::string& program, UpOptions options) {
  ASSIGN_OR_RETURN(ClusterConfig config, load_config(options.config));
  if (const auto answered = answer_config_question(options.config, config)) return *answered;
  RETURN_IF_ERROR(check_servable(config));
  RETURN_IF_ERROR(settle_ports(config, options));
  ASSIGN_OR_RETURN(const std::string log_dir, make_log_dir(config.log.dir));

  Supervisor supervisor(config,
                        {.program = program,
                         .config_file = options.config.file,
                         .sets = options.config.sets,
                         .log_dir = log_dir,
                         .ready_timeout = Duration::from_ms(options.ready_timeout_s * 1000)},
                        std::cerr);
  if (Status started = supervisor.start(); !started.ok()) {
    if (supervisor.signal() != 0) return 128 + supervisor.signal();
    return started.failure();
  }
  if (!options.command.empty()) return supervisor.run(options.command);
  print_addresses(config, log_dir);
  return supervisor.serve();
}

}  // namespace

void add_up_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<UpOptions>();
  CLI::App* command =
      app.add_subcommand("up", "Run a cluster on this machine: router and nodes, until Ctrl-C");
  add_config_flags(command, options->config);
  command->add_flag("--free-ports", options->free_ports,
                    "Move the router's addresses to the next free ports");
  command
      ->add_option("--ready-timeout", options->ready_timeout_s, "Seconds until every process must be ready")
      ->check(CLI::Range(1, 86400));
  command->add_option("command", options->command,
                      "After --: run this once the cluster is ready, then stop; its exit code is ours");
  const std::string program = context.program();
  context.on_run(command, [options, program] { return run_up(program, *options); });
}

}  // namespace penstock::cli
