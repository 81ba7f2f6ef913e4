// The public listener: OpenAI's endpoints, health, metrics.
//
// On the router's thread; everything it refers to must outlive it.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/counters.h"
#include "base/log.h"
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
  Logger log = {};
};

class ApiService final : public HttpHandler {
 public:
  explicit ApiService(ApiContext context);

  std::optional<HttpResponse> check_head(const HttpHead& head) override;
  void handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) override;
  void answered(const HttpHead& head, int status) override;

  void start_draining() { draining_ = true; }

 private:
  // What admit() needs of a request besides its body.
  struct Origin {
    Endpoint endpoint = Endpoint::kChat;
    std::string request_id;
    int32_t keep_alive_s = 0;  // its key's
    std::shared_ptr<HttpExchange> exchange;
  };
  // Runs `prepare` here, or on the worker when the body is large; then `finish` with its result, here.
  template <typename Prepare, typename Finish>
  void run(HttpRequest request, std::shared_ptr<HttpExchange> exchange, Prepare prepare, Finish finish);
  void generate(Endpoint endpoint, HttpRequest request, std::shared_ptr<HttpExchange> exchange);
  void admit(const Origin& origin, Parsed<PreparedRequest> prepared);
  void tokenize(HttpRequest request, std::shared_ptr<HttpExchange> exchange);
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
