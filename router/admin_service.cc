#include "router/admin_service.h"

#include "router/api_error.h"

namespace penstock::router {
namespace {

constexpr double kKilo = 1000;

const char* role_name(scheduler::NodeRole role) {
  return role == scheduler::NodeRole::kPrefill ? "prefill" : "decode";
}

Json node_json(const NodeState& node) {
  const wire::LoadT& load = node.load;
  const uint64_t used = uint64_t{load.held_blocks} + load.leased_blocks + load.quarantined_blocks;
  const char* state = !node.accepted ? "joining" : node.draining ? "draining" : "ready";
  return {{"name", node.name},
          {"id", node.id.value()},
          {"role", role_name(node.role)},
          {"state", state},
          {"pid", node.pid},
          {"running", load.running},
          {"waiting", load.waiting},
          {"waiting_tokens", load.waiting_tokens},
          {"kv_blocks_total", used + load.free_blocks},
          {"kv_blocks_used", used},
          {"kv_blocks_leased", load.leased_blocks},
          {"kv_blocks_quarantined", load.quarantined_blocks},
          {"prefill_toks", node.capacity.prefill_tokens_per_s},
          {"decode_b1_toks", node.capacity.decode_b1_tokens_per_s},
          {"decode_bmax_toks", node.capacity.decode_bmax_tokens_per_s},
          {"prefill_toks_now", load.prefill_toks},
          {"decode_toks_now", load.decode_toks},
          {"preemptions", load.preemptions}};
}

Json pairs_json(const NodeTable& nodes) {
  Json pairs = Json::array();
  for (const auto& [id, node] : nodes.all()) {
    for (const auto& [decode, pair] : node.pairs) {
      pairs.push_back({{"prefill", node.name},
                       {"decode", nodes.name_of(decode)},
                       {"lanes", pair.lanes},
                       {"put_gbps", pair.put_gbps},
                       {"memcpy_gbps", pair.memcpy_gbps}});
    }
  }
  return pairs;
}

Json handoffs_json(const ClusterDriver& driver) {
  Json list = Json::array();
  for (auto record = driver.handoffs().rbegin(); record != driver.handoffs().rend(); ++record) {
    const double us = static_cast<double>(record->transfer_us);
    list.push_back({{"response_id", record->response_id},
                    {"transfer", record->transfer.value()},
                    {"prefill", record->prefill},
                    {"decode", record->decode},
                    {"done", record->bytes > 0},
                    {"bytes", record->bytes},
                    {"transfer_us", record->transfer_us},
                    {"reserve_to_ack_us", record->reserve_to_ack_us},
                    {"gbps", us > 0 ? static_cast<double>(record->bytes) / us / kKilo : 0.0}});
  }
  return list;
}

}  // namespace

Json status_json(const ClusterDriver& driver, const std::string& cluster, const std::string& model,
                 bool draining) {
  const scheduler::ClusterStats stats = driver.stats();
  Json nodes = Json::array();
  for (const auto& [id, node] : driver.nodes().all()) nodes.push_back(node_json(node));
  return {{"cluster", cluster},
          {"model", model},
          {"ready", driver.ready() && !draining},
          {"draining", draining},
          {"requests",
           {{"running", driver.requests_running()},
            {"sequences_waiting", stats.queued},
            {"sequences_started", stats.started},
            {"arrivals", stats.arrivals},
            {"finished", stats.finished},
            {"rejected", stats.rejected},
            {"failed", stats.failed},
            {"replays", stats.replays}}},
          {"nodes", std::move(nodes)},
          {"pairs", pairs_json(driver.nodes())},
          {"handoffs", handoffs_json(driver)}};
}

std::optional<HttpResponse> AdminService::check_head(const HttpHead& head) {
  const bool known = head.path == "/admin/status" || head.path == "/metrics" || head.path == "/health";
  if (!known) return error_response(path_not_found(head.method, head.path));
  if (head.method != "GET" && head.method != "HEAD")
    return error_response(method_not_allowed(head.method, head.path));
  return std::nullopt;
}

void AdminService::handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
  HttpResponse response;
  if (request.path == "/admin/status") {
    response.body = dump(status_json(driver_, cluster_, model_, draining_));
  } else if (request.path == "/metrics") {
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = render_metrics(registry_, vllm_aliases_);
  } else {
    response.body = dump(Json{{"status", "ok"}});
  }
  exchange->respond(std::move(response));
}

}  // namespace penstock::router
