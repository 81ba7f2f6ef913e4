// The router's own numbers, by the names that people's dashboards ask for, prefix penstock_.
//
// Instruments are looked up once; the Registry must outlive this. Updated by the router's thread.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "base/counters.h"
#include "base/time.h"

namespace penstock::router {

// Client-chosen label values: the first 1,000 different ones stand for themselves, the rest are `other`.
class LabelFolder {
 public:
  const std::string& fold(std::string_view value);

 private:
  std::set<std::string, std::less<>> known_;
};

class RouterMetrics {
 public:
  explicit RouterMetrics(Registry& registry);

  Gauge& requests_running;  // admitted, not ended
  Gauge& requests_waiting;  // sequences that no node has started
  Counter& prompt_tokens;
  Counter& generation_tokens;
  Histogram& time_to_first_token;
  Histogram& inter_token_latency;
  Histogram& request_latency;
  Histogram& queue_time;
  Histogram& prefill_time;
  Histogram& decode_time;
  Counter& handoff_bytes;
  Histogram& handoff_seconds;
  Counter& replays;
  Counter& nodes_lost;
  Counter& frames_malformed;

  // One sequence has ended: stop, length, abort or error.
  void count_finished(std::string_view reason);
  void count_http(std::string_view method, std::string_view path, int status);
  void count_unknown_model(std::string_view model);
  void set_kv_usage(const std::string& node, double share);
  void set_preemptions(const std::string& node, double since_start);

 private:
  Registry& registry_;
  LabelFolder models_;
};

// The registry as Prometheus text; with `vllm_aliases`, the families that stock dashboards know once more
// under their vllm: names.
std::string render_metrics(const Registry& registry, bool vllm_aliases);

}  // namespace penstock::router
