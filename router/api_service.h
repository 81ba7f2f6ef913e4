// The public listener: OpenAI's endpoints, health, metrics.
//
// On the router's thread; everything it refers to must outlive it.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/counters.h"
#include "base/rng.h"
#include "router/api_keys.h"
#include "router/cluster_driver.h"
#include "router/http_types.h"
#include "router/prepare_request.h"
#include "router/worker.h"

namespace penstock::router {

struct ApiContext {
  const ServedModel& model;
  ClusterDriver& driver;
  RouterMetrics& metrics;
  const Registry& registry;
  Worker& worker;
  ApiKeys keys;
  bool vllm_aliases = false;
};

class ApiService final : public HttpHandler {
 public:
  explicit ApiService(ApiContext context);

  std::optional<HttpResponse> check_head(const HttpHead& head) override;
  void handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) override;
  void answered(const HttpHead& head, int status) override;

  void start_draining() { draining_ = true; }

 private:
  void generate(Endpoint endpoint, HttpRequest request, std::shared_ptr<HttpExchange> exchange);
  void admit(Endpoint endpoint, Parsed<PreparedRequest> prepared, std::string request_id,
             const std::shared_ptr<HttpExchange>& exchange);
  HttpResponse get(const std::string& path) const;
  std::string new_id(const char* prefix);

  ApiContext context_;
  int64_t created_;
  Rng rng_;
  RequestPreparer preparer_;                          // this thread's
  std::shared_ptr<RequestPreparer> worker_preparer_;  // the worker's
  bool draining_ = false;
};

// What this build is, as GET /version and `penstock --version` say it.
inline constexpr const char* kVersion = "0.1.0";

}  // namespace penstock::router
