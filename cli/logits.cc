// `penstock logits MODEL`: what the model says at every position of given token ids, by the forward pass that
// serves.
//
// Input: JSON lines {"ids": [...]}. Output, one object a line, in order:
//   --top K      {"top": [{"position", "ids": [K], "logits": [K], "logprobs": [K]}, ...]}, best first
//   --full FILE  {"array": "logits_0", "shape": [positions, vocabulary]}; the logits themselves are in FILE,
//   a
//                NumPy archive (stored, not deflated) of f32 arrays logits_0, logits_1 ... in order of input
#include <charconv>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "kernels/sampling.h"
#include "model/npz_writer.h"
#include "model/sequence_runner.h"

namespace penstock::cli {
namespace {

struct LogitsFlags {
  std::string model;
  std::string dtype = "bf16";
  std::string kv_dtype;  // empty: as dtype
  int top = 5;
  std::string full;
  int threads = 1;
  int chunk = 64;
};

Result<std::vector<TokenId>> parse_ids(const std::string& line, int64_t line_number) {
  const auto bad = [&](const char* what) {
    return fail(Error::kInvalidArgument, "standard input, line " + std::to_string(line_number) + ": " + what);
  };
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("ids") || !json["ids"].is_array() || json["ids"].empty()) {
    return bad("expected {\"ids\": [...]} with at least one token id");
  }
  std::vector<TokenId> ids;
  for (const auto& id : json["ids"]) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX) return bad("ids must be token ids");
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

// Shortest decimal that gives the same f32.
void append_float(std::string& out, float value) {
  char text[32];
  out.append(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

template <typename Append>
void append_list(std::string& out, const char* name, int count, Append append) {
  out += std::string(", \"") + name + "\": [";
  for (int i = 0; i < count; ++i) {
    if (i > 0) out += ", ";
    append(i);
  }
  out += "]";
}

// Appends one position's {"position", "ids", "logits", "logprobs"}.
Status append_top(std::string& out, Isa isa, int64_t position, std::span<const float> logits, int k,
                  SamplingScratch& scratch) {
  TokenLogprob best[kTopLogprobsMax];
  ASSIGN_OR_RETURN(const int count, top_logprobs(isa, logits, k, best, scratch));
  out += position == 0 ? "{\"position\": " : ", {\"position\": ";
  out += std::to_string(position);
  append_list(out, "ids", count, [&](int i) { out += std::to_string(best[i].token); });
  append_list(out, "logits", count,
              [&](int i) { append_float(out, logits[static_cast<size_t>(best[i].token)]); });
  append_list(out, "logprobs", count, [&](int i) { append_float(out, best[i].logprob); });
  out += "}";
  return {};
}

Status answer_top(SequenceRunner& runner, std::span<const TokenId> ids, const LogitsFlags& flags, Isa isa,
                  SamplingScratch& scratch) {
  std::string out = "{\"top\": [";
  Status status;
  RETURN_IF_ERROR(
      runner.feed(ids, SequenceRunner::Logits::kAll, [&](int64_t position, std::span<const float> logits) {
        if (!status.ok()) return;
        status = append_top(out, isa, position, logits, flags.top, scratch);
      }));
  RETURN_IF_ERROR(std::move(status));
  std::cout << out << "]}\n";
  return {};
}

Status answer_full(SequenceRunner& runner, std::span<const TokenId> ids, int64_t vocab, int64_t index,
                   NpzWriter& archive) {
  const std::string name = "logits_" + std::to_string(index);
  const auto positions = static_cast<int64_t>(ids.size());
  RETURN_IF_ERROR(archive.begin(name, {positions, vocab}));
  Status status;
  RETURN_IF_ERROR(runner.feed(ids, SequenceRunner::Logits::kAll, [&](int64_t, std::span<const float> logits) {
    if (status.ok()) status = archive.append(logits);
  }));
  RETURN_IF_ERROR(std::move(status));
  std::cout << "{\"array\": \"" << name << "\", \"shape\": [" << positions << ", " << vocab << "]}\n";
  return {};
}

Result<int> run_logits(const LogitsFlags& flags) {
  const auto dtype = parse_dtype(flags.dtype);
  CHECK(dtype.has_value());  // the flag's check knows the names
  const auto device = make_cpu_device();
  ASSIGN_OR_RETURN(const auto stream, device->make_stream({.threads = flags.threads, .isa = std::nullopt}));
  ModelOptions options;
  options.dtype = *dtype;
  options.rows_max = flags.chunk;
  options.threads = flags.threads;
  options.isa = stream->isa();
  ASSIGN_OR_RETURN(const auto model, load_model(flags.model, options, *device));
  SequenceRunner::Options runner_options;
  ASSIGN_OR_RETURN(runner_options.kv_dtype,
                   parse_kv_dtype(flags.kv_dtype.empty() ? flags.dtype : flags.kv_dtype));
  runner_options.chunk = flags.chunk;
  ASSIGN_OR_RETURN(SequenceRunner runner, SequenceRunner::make(*model, *device, *stream, runner_options));
  std::optional<NpzWriter> archive;
  if (!flags.full.empty()) {
    ASSIGN_OR_RETURN(archive, NpzWriter::create(flags.full));
  }
  SamplingScratch scratch;
  std::string line;
  int64_t line_number = 0, index = 0;
  while (std::getline(std::cin, line)) {
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    ASSIGN_OR_RETURN(const std::vector<TokenId> ids, parse_ids(line, line_number));
    runner.reset();
    Status status = archive ? answer_full(runner, ids, model->config().vocab_size, index, *archive)
                            : answer_top(runner, ids, flags, stream->isa(), scratch);
    if (!status.ok()) {
      return std::move(status).with_context("standard input, line " + std::to_string(line_number)).failure();
    }
    ++index;
  }
  if (archive) RETURN_IF_ERROR(archive->finish());
  std::cout.flush();
  return 0;
}

}  // namespace

void add_logits_command(CLI::App& app, CommandContext& context) {
  auto flags = std::make_shared<LogitsFlags>();
  CLI::App* command = app.add_subcommand("logits", "Logits of token ids at every position, JSON lines");
  command->add_option("model", flags->model, "Model folder")->required();
  command->add_option("--dtype", flags->dtype, "Type of the weights in memory (default bf16)")
      ->check(CLI::IsMember({"bf16", "f32"}));
  command->add_option("--kv-dtype", flags->kv_dtype, "Type of the KV cache (default: as --dtype)")
      ->check(CLI::IsMember({"bf16", "f32"}));
  CLI::Option* top = command->add_option("--top", flags->top, "Best ids per position (default 5)")
                         ->check(CLI::Range(1, kTopLogprobsMax));
  command->add_option("--full", flags->full, "Write all logits to this .npz file instead")->excludes(top);
  command->add_option("--threads", flags->threads, "CPU threads (default 1)")->check(CLI::Range(1, 1024));
  command->add_option("--chunk", flags->chunk, "Positions in one forward pass (default 64)")
      ->check(CLI::Range(1, 4096));
  context.on_run(command, [flags] { return run_logits(*flags); });
}

}  // namespace penstock::cli
