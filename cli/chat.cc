// `penstock chat`: a terminal client of the OpenAI endpoint; with --summary also what the answer cost.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>

#include "cli/chat_client.h"
#include "cli/cluster_status.h"
#include "cli/command.h"

namespace penstock::cli {
namespace {

struct ChatOptions {
  ConfigFlags config;
  std::string server, admin, model, system, api_key_file;
  int64_t tokens_max = 0;
  double temperature = -1, top_p = -1;
  int64_t seed = -1;
  bool summary = false;
  std::vector<std::string> prompt;
};

struct Session {
  HostPort server, admin;
  std::string api_key;
  ChatRequest request;
  bool summary = false;
};

Result<Session> open_session(const ChatOptions& options, const ClusterConfig& config) {
  Session session;
  ASSIGN_OR_RETURN(session.server,
                   parse_host_port(options.server.empty() ? config.router.listen : options.server));
  ASSIGN_OR_RETURN(session.admin,
                   parse_host_port(options.admin.empty() ? config.router.admin : options.admin));
  session.summary = options.summary;
  if (!options.api_key_file.empty()) {
    std::ifstream in(options.api_key_file);
    if (!std::getline(in, session.api_key))
      return fail(Error::kNotFound, "--api-key-file " + options.api_key_file + ": no key in it");
  }
  session.request.model = options.model;
  if (options.model.empty()) {
    auto model = first_model(session.server, session.api_key);
    if (!model.ok())
      return fail(model.code(),
                  model.message() + ": is the cluster running? ./penstock.sh demo --serve starts one");
    session.request.model = *model;
  }
  if (!options.system.empty()) session.request.messages.emplace_back("system", options.system);
  session.request.tokens_max = options.tokens_max;
  if (options.temperature >= 0) session.request.temperature = options.temperature;
  if (options.top_p > 0) session.request.top_p = options.top_p;
  if (options.seed >= 0) session.request.seed = options.seed;
  return session;
}

const HandoffStatus* handoff_of(const ClusterStatus& status, const std::string& response_id) {
  for (const HandoffStatus& handoff : status.handoffs)
    if (handoff.response_id == response_id) return &handoff;
  return nullptr;
}

void print_summary(const Session& session, const ChatAnswer& answer) {
  const double tpot_ms = answer.tpot_ms();
  std::printf("\ntokens    %lld prompt, %lld answer (finish_reason %s)\n",
              static_cast<long long>(answer.prompt_tokens), static_cast<long long>(answer.completion_tokens),
              answer.finish_reason.c_str());
  std::printf("TTFT      %.1f ms\nTPOT      %.2f ms (%.1f tokens/s)\n", answer.ttft.ms(), tpot_ms,
              tpot_ms > 0 ? 1000 / tpot_ms : 0.0);
  auto status = fetch_cluster_status(session.admin, Duration::from_ms(3000));
  if (!status.ok()) {
    std::printf("handoff   unknown: %s\n", status.message().c_str());
    return;
  }
  const HandoffStatus* handoff = handoff_of(*status, answer.id);
  if (handoff == nullptr) {
    std::printf("nodes     prefill and decode on one node: no KV was moved\n");
    return;
  }
  std::printf("nodes     prefill on %s, decode on %s\n", handoff->prefill.c_str(), handoff->decode.c_str());
  std::printf(
      "KV moved  %lld bytes in %.2f ms, layer by layer while prefill computed: %.2f GB/s (RESERVE to ACK "
      "%.2f ms)\n",
      static_cast<long long>(handoff->bytes), static_cast<double>(handoff->transfer_us) / 1e3, handoff->gbps,
      static_cast<double>(handoff->reserve_to_ack_us) / 1e3);
  for (const PairStatus& pair : status->pairs)
    if (pair.prefill == handoff->prefill && pair.decode == handoff->decode)
      std::printf("lanes     %s: probed at %.1f GB/s, memcpy %.1f GB/s\n", pair.lanes.c_str(), pair.put_gbps,
                  pair.memcpy_gbps);
}

// One turn: the answer joins the messages, so that the next turn continues the conversation.
Status take_turn(Session& session, const std::string& prompt, const Clock& clock) {
  session.request.messages.emplace_back("user", prompt);
  auto answer = chat(session.server, session.api_key, session.request, clock,
                     [](std::string_view text) { std::cout << text << std::flush; });
  std::cout << std::endl;
  if (!answer.ok()) {
    session.request.messages.pop_back();
    return answer.failure();
  }
  session.request.messages.emplace_back("assistant", answer->text);
  if (session.summary) print_summary(session, *answer);
  std::fflush(stdout);
  return {};
}

Result<int> run_chat(const ChatOptions& options) {
  ASSIGN_OR_RETURN(const ClusterConfig config, load_config(options.config));
  if (const auto answered = answer_config_question(options.config, config)) return *answered;
  ASSIGN_OR_RETURN(Session session, open_session(options, config));
  const SystemClock clock;
  if (!options.prompt.empty()) {
    std::string prompt;
    for (const std::string& word : options.prompt) prompt += (prompt.empty() ? "" : " ") + word;
    RETURN_IF_ERROR(take_turn(session, prompt, clock));
    return 0;
  }
  const bool terminal = ::isatty(STDIN_FILENO) == 1;
  if (terminal) std::cerr << "chat with " << session.request.model << "; an empty line or Ctrl-D ends it\n";
  for (std::string line;
       (terminal ? std::cerr << "> " << std::flush : std::cerr), std::getline(std::cin, line);) {
    if (line.empty()) break;
    if (Status turn = take_turn(session, line, clock); !turn.ok()) {
      if (!terminal) return turn.failure();
      std::cerr << "penstock chat: " << turn.message() << std::endl;
    }
  }
  return 0;
}

}  // namespace

void add_chat_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<ChatOptions>();
  CLI::App* command = app.add_subcommand("chat", "Talk to a running cluster through its OpenAI endpoint");
  add_config_flags(command, options->config);
  command->add_option("--server", options->server, "HOST:PORT of the endpoint; default: router.listen");
  command->add_option("--admin", options->admin, "HOST:PORT of the admin listener; default: router.admin");
  command->add_option("--model", options->model, "Model id; default: the first that the server has");
  command->add_option("--system", options->system, "System message");
  command->add_option("--api-key-file", options->api_key_file, "File whose first line is the API key");
  command->add_option("--max-tokens", options->tokens_max, "Limit of the answer")->check(CLI::PositiveNumber);
  command->add_option("--temperature", options->temperature, "0 to 2")->check(CLI::Range(0.0, 2.0));
  command->add_option("--top-p", options->top_p, "Above 0, to 1")->check(CLI::Range(0.0, 1.0));
  command->add_option("--seed", options->seed, "Same seed, same answer")->check(CLI::NonNegativeNumber);
  command->add_flag("--summary", options->summary,
                    "Tokens, TTFT, TPOT, nodes, KV bytes, GB/s and lanes after it");
  command->add_option("prompt", options->prompt, "The message; without it, a conversation line by line");
  context.on_run(command, [options] { return run_chat(*options); });
}

}  // namespace penstock::cli
