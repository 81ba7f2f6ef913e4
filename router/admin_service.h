// The admin listener: what `penstock status` and the demo ask, and metrics without a key. Bound to loopback.
//
// On the router's thread; the driver and the registry must outlive it.
#pragma once

#include <string>

#include "base/counters.h"
#include "router/cluster_driver.h"
#include "router/http_types.h"
#include "router/json_text.h"

namespace penstock::router {

// Nodes, pairs, requests and the last handoffs, newest first.
Json status_json(const ClusterDriver& driver, const std::string& cluster, const std::string& model,
                 bool draining);

class AdminService final : public HttpHandler {
 public:
  AdminService(const ClusterDriver& driver, const Registry& registry, std::string cluster, std::string model,
               bool vllm_aliases)
      : driver_(driver),
        registry_(registry),
        cluster_(std::move(cluster)),
        model_(std::move(model)),
        vllm_aliases_(vllm_aliases) {}

  std::optional<HttpResponse> check_head(const HttpHead& head) override;
  void handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) override;
  void start_draining() { draining_ = true; }

 private:
  const ClusterDriver& driver_;
  const Registry& registry_;
  std::string cluster_, model_;
  bool vllm_aliases_;
  bool draining_ = false;
};

}  // namespace penstock::router
