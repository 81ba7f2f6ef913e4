// UCX context with this project's settings: the part of the UCX transport that touches the environment.
#pragma once

#include <ucp/api/ucp.h>

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

[[nodiscard]] Failure ucx_failure(const std::string& call, ucs_status_t status);

}  // namespace penstock
