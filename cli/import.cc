// `penstock import SRC DST`: a GGUF file or a Hugging Face folder becomes a model folder.
#include <cstdio>

#include "cli/command.h"
#include "model/import.h"

namespace penstock::cli {
namespace {

struct ImportFlags {
  std::string source;
  std::string destination;
  std::string dtype = "bf16";
};

Result<int> run_import(const ImportFlags& flags) {
  const auto dtype = parse_dtype(flags.dtype);
  CHECK(dtype.has_value());  // the flag's check knows the names
  int64_t shown = -1;
  const auto progress = [&](int64_t done, int64_t total) {
    const int64_t percent = done * 100 / total;
    if (percent / 5 == shown / 5 && done != total) return;
    shown = percent;
    std::fprintf(stderr, "\rimporting %s: %3lld %% of %lld MB", flags.source.c_str(),
                 static_cast<long long>(percent), static_cast<long long>(total / 1'000'000));
    if (done == total) std::fputc('\n', stderr);
  };
  auto summary = import_model(flags.source, flags.destination, {.dtype = *dtype}, progress);
  if (!summary.ok()) {
    if (shown >= 0 && shown < 100) std::fputc('\n', stderr);
    return summary.failure();
  }
  std::fprintf(stderr, "%s: %s, %lld tensors, %lld MB as %s\n", flags.destination.c_str(),
               summary->architecture.c_str(), static_cast<long long>(summary->tensors),
               static_cast<long long>(summary->bytes / 1'000'000), flags.dtype.c_str());
  return 0;
}

}  // namespace

void add_import_command(CLI::App& app, CommandContext& context) {
  auto flags = std::make_shared<ImportFlags>();
  CLI::App* command =
      app.add_subcommand("import", "Make a model folder from a GGUF file or a Hugging Face folder");
  command->add_option("source", flags->source, "GGUF file or Hugging Face folder")->required();
  command->add_option("destination", flags->destination, "Folder to make; must not exist yet")->required();
  command->add_option("--dtype", flags->dtype, "Type of the weights written (default bf16)")
      ->check(CLI::IsMember({"bf16", "f32"}));
  context.on_run(command, [flags] { return run_import(*flags); });
}

}  // namespace penstock::cli
