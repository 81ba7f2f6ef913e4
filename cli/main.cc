// The one binary: `penstock COMMAND ...`. Parses flags, runs one command, maps its result to an exit code.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <iostream>

#include "cli/command.h"
#include "topology/nearest_name.h"

namespace penstock::cli {
#define PENSTOCK_COMMAND(name) void add_##name##_command(CLI::App& app, CommandContext& context);
#include "cli/commands.inc"
#undef PENSTOCK_COMMAND

namespace {

constexpr int kUsageError = 2;

// /proc/self/exe: children must be this very build, whatever PATH or the working directory say.
std::string executable_path(const char* argv0) {
  std::array<char, 4096> path;
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  return length > 0 ? std::string(path.data(), static_cast<size_t>(length)) : std::string(argv0);
}

// The innermost command that was named before parsing failed, for "penstock bench engine: ...".
std::string named_command(const CLI::App& app) {
  std::string name = "penstock";
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    name += " " + at->get_name();
  }
  return name;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

bool is_command(const CLI::App& app, const std::string& name) {
  const auto names = command_names(app);
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string nearest_command(const CLI::App& app, const std::string& name) {
  const auto names = command_names(app);
  return std::string(nearest_name(name, names));
}

int run_main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);  // a closed peer or pipe is an error code, not the end
  CLI::App app("Penstock: LLM serving with prefill and decode on different machines", "penstock");
  app.require_subcommand(1);
  CommandContext context(executable_path(argv[0]));
#define PENSTOCK_COMMAND(name) add_##name##_command(app, context);
#include "cli/commands.inc"
#undef PENSTOCK_COMMAND
  if (argc > 1 && argv[1][0] != '-' && !is_command(app, argv[1])) {
    std::cerr << "penstock: unknown command " << argv[1] << ": did you mean " << nearest_command(app, argv[1])
              << "? See penstock --help" << std::endl;
    return kUsageError;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    const std::string name = named_command(app);
    std::cerr << name << ": " << error.what() << ": see " << name << " --help" << std::endl;
    return kUsageError;
  }
  return context.run();
}

}  // namespace
}  // namespace penstock::cli

int main(int argc, char** argv) {
  try {
    return penstock::cli::run_main(argc, argv);
  } catch (const std::exception& error) {
    // No room lets an exception out; what arrives here is memory that ran out or a bug.
    std::cerr << "penstock: " << error.what() << std::endl;
    return 1;
  }
}
