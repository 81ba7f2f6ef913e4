#include "router/metrics.h"

#include <algorithm>
#include <array>

namespace penstock::router {
namespace {

constexpr size_t kLabelValuesMax = 1000;

const std::vector<double>& ttft_buckets() {
  static const std::vector<double> kBuckets = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                               1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
  return kBuckets;
}

const std::vector<double>& token_buckets() {
  static const std::vector<double> kBuckets = {.001, .0025, .005, .01, .025, .05, .075, .1, .15, .2, .3,
                                               .4,   .5,    .75,  1,   2.5,  5,   7.5,  10, 20,  40, 80};
  return kBuckets;
}

const std::vector<double>& request_buckets() {
  static const std::vector<double> kBuckets = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                               30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
  return kBuckets;
}

// What vLLM calls the same thing.
constexpr std::array<std::string_view, 13> kAliased = {
    "num_requests_running",         "num_requests_waiting",        "kv_cache_usage_perc",
    "time_to_first_token_seconds",  "inter_token_latency_seconds", "e2e_request_latency_seconds",
    "prompt_tokens_total",          "generation_tokens_total",     "request_queue_time_seconds",
    "request_prefill_time_seconds", "request_decode_time_seconds", "request_success_total",
    "num_preemptions_total"};

// The family's name in a line of exposition text: after "# HELP " or "# TYPE ", or up to '{' or ' '.
std::string_view family_in(std::string_view line) {
  if (line.starts_with("# ")) line.remove_prefix(std::min<size_t>(7, line.size()));
  const size_t end = line.find_first_of("{ ");
  return line.substr(0, end);
}

bool is_aliased(std::string_view family) {
  constexpr std::string_view kPrefix = "penstock_";
  if (!family.starts_with(kPrefix)) return false;
  family.remove_prefix(kPrefix.size());
  return std::any_of(kAliased.begin(), kAliased.end(), [&](std::string_view name) {
    if (!family.starts_with(name)) return false;
    const std::string_view rest = family.substr(name.size());
    return rest.empty() || rest == "_bucket" || rest == "_sum" || rest == "_count";
  });
}

}  // namespace

const std::string& LabelFolder::fold(std::string_view value) {
  static const std::string kOther = "other";
  const auto found = known_.find(value);
  if (found != known_.end()) return *found;
  if (known_.size() == kLabelValuesMax) return kOther;
  return *known_.emplace(value).first;
}

RouterMetrics::RouterMetrics(Registry& registry)
    : requests_running(registry.gauge("penstock_num_requests_running", "Requests admitted and not ended")),
      requests_waiting(registry.gauge("penstock_num_requests_waiting", "Sequences that no node has started")),
      prompt_tokens(registry.counter("penstock_prompt_tokens_total", "Prompt tokens of admitted requests")),
      generation_tokens(registry.counter("penstock_generation_tokens_total", "Tokens delivered to clients")),
      time_to_first_token(registry.histogram("penstock_time_to_first_token_seconds",
                                             "From the request's arrival to its first token",
                                             ttft_buckets())),
      inter_token_latency(registry.histogram("penstock_inter_token_latency_seconds",
                                             "Between two tokens of one sequence", token_buckets())),
      request_latency(registry.histogram("penstock_e2e_request_latency_seconds",
                                         "From the request's arrival to its end", request_buckets())),
      queue_time(registry.histogram("penstock_request_queue_time_seconds",
                                    "From arrival to the start on a node", request_buckets())),
      prefill_time(registry.histogram("penstock_request_prefill_time_seconds",
                                      "From the start on a node to the first token", request_buckets())),
      decode_time(registry.histogram("penstock_request_decode_time_seconds",
                                     "From the first token to the last", request_buckets())),
      handoff_bytes(registry.counter("penstock_kv_handoff_bytes_total", "KV bytes moved between nodes")),
      handoff_seconds(registry.histogram("penstock_kv_handoff_seconds",
                                         "First post to flush complete of a KV handoff", ttft_buckets())),
      replays(registry.counter("penstock_replays_total", "Sequences started again after a failure")),
      nodes_lost(registry.counter("penstock_nodes_lost_total", "Nodes lost: silent, gone or out of step")),
      frames_malformed(
          registry.counter("penstock_control_frames_malformed_total", "Control frames dropped unread")),
      registry_(registry) {
  for (const char* reason : {"stop", "length", "abort", "error"}) {
    registry_.counter("penstock_request_success_total", "Sequences ended, by reason",
                      {{"finished_reason", reason}});
  }
}

void RouterMetrics::count_finished(std::string_view reason) {
  registry_
      .counter("penstock_request_success_total", "Sequences ended, by reason",
               {{"finished_reason", std::string(reason)}})
      .add();
}

void RouterMetrics::count_http(std::string_view method, std::string_view path, int status) {
  registry_
      .counter(
          "penstock_http_requests_total", "HTTP requests answered",
          {{"method", std::string(method)}, {"path", std::string(path)}, {"status", std::to_string(status)}})
      .add();
}

void RouterMetrics::count_unknown_model(std::string_view model) {
  registry_
      .counter("penstock_unknown_model_total", "Requests for a model that is not served",
               {{"model", models_.fold(model)}})
      .add();
}

void RouterMetrics::set_kv_usage(const std::string& node, double share) {
  registry_
      .gauge("penstock_kv_cache_usage_perc", "Share of the node's KV blocks in use, 0 to 1", {{"node", node}})
      .set(share);
}

void RouterMetrics::set_preemptions(const std::string& node, double since_start) {
  registry_
      .gauge("penstock_num_preemptions_total", "Sequences preempted since the node started", {{"node", node}})
      .set(since_start);
}

std::string render_metrics(const Registry& registry, bool vllm_aliases) {
  std::string text = registry.render();
  if (!vllm_aliases) return text;
  std::string aliases;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (is_aliased(family_in(line))) {
      line.replace(line.find("penstock_"), std::string_view("penstock_").size(), "vllm:");
      aliases += line + '\n';
    }
    begin = end + 1;
  }
  return text + aliases;
}

}  // namespace penstock::router
