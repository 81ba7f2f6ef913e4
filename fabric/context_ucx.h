// UCX context with this project's settings, the part of the UCX transport that touches the environment; and
// workers of it, as the transport and the collectives both use them.
#pragma once

#include <ucp/api/ucp.h>

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "fabric/transport_ucx.h"

namespace penstock {

struct UcxContextDeleter {
  void operator()(ucp_context_h context) const { ucp_cleanup(context); }
};
using UcxContext = std::unique_ptr<ucp_context, UcxContextDeleter>;

struct UcxContextSettings {
  UcxContext context;
  std::string library;     // "ucx 1.13.1"
  std::string transports;  // UCX_TLS in force
  bool mm_error_handling = false;
};

[[nodiscard]] Result<UcxContextSettings> make_ucx_context(const UcxOptions& options);

struct UcxWorkerDeleter {
  void operator()(ucp_worker_h worker) const { ucp_worker_destroy(worker); }
};
using UcxWorker = std::unique_ptr<ucp_worker, UcxWorkerDeleter>;

// For one thread. Whole active messages with the handler's id, cb and arg go there.
[[nodiscard]] Result<UcxWorker> make_ucx_worker(ucp_context_h context, ucp_am_handler_param_t handler);
[[nodiscard]] Result<std::string> ucx_worker_address(ucp_worker_h worker);
// Until `done`, but half a second at most: a peer that is stopped may never answer.
void progress_ucx_until(ucp_worker_h worker, const std::function<bool()>& done);
// Before a worker is destroyed. UCX answers a peer's connection by itself, and 1.13 aborts in
// ucp_worker_destroy when such an answer is still queued (tcp).
void flush_ucx_worker(ucp_worker_h worker);

[[nodiscard]] Failure ucx_failure(const std::string& call, ucs_status_t status);

}  // namespace penstock
