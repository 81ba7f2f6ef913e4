#include "fabric/context_ucx.h"

#include <poll.h>

#include <cctype>
#include <cstdlib>
#include <cstring>

#include "fabric/process_watch.h"

namespace penstock {
namespace {

struct ConfigDeleter {
  void operator()(ucp_config_t* config) const { ucp_config_release(config); }
};
using Config = std::unique_ptr<ucp_config_t, ConfigDeleter>;

// What the environment says wins; else `value` is set.
Status set_unless_given(const Config& config, const std::string& name, const std::string& value) {
  if (std::getenv(("UCX_" + name).c_str()) != nullptr) return {};
  const ucs_status_t status = ucp_config_modify(config.get(), name.c_str(), value.c_str());
  if (status != UCS_OK) return ucx_failure("setting UCX_" + name + "=" + value, status);
  return {};
}

std::string value_of(const char* variable, const std::string& otherwise) {
  const char* given = std::getenv(variable);
  return given == nullptr ? otherwise : given;
}

bool is_yes(std::string value) {
  for (char& c : value)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));  // as UCX reads it
  return value == "y" || value == "yes" || value == "1" || value == "on";
}

Result<std::string> supported_version() {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  const std::string version =
      std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
  if (major != 1 || minor < 13)
    return fail(Error::kUnsupported, "UCX " + version + ": versions from 1.13 on are supported");
  return "ucx " + version;
}

}  // namespace

Failure ucx_failure(const std::string& call, ucs_status_t status) {
  const bool connection = status == UCS_ERR_UNREACHABLE || status == UCS_ERR_ENDPOINT_TIMEOUT ||
                          status == UCS_ERR_CONNECTION_RESET || status == UCS_ERR_NOT_CONNECTED ||
                          status == UCS_ERR_REJECTED ||
                          status == UCS_ERR_SHMEM_SEGMENT;  // of a process that is going
  if (status == UCS_ERR_CANCELED) return fail(Error::kCancelled, call + ": connection closed");
  return fail(connection ? Error::kUnavailable : Error::kInternal, call + ": " + ucs_status_string(status));
}

Result<UcxContextSettings> make_ucx_context(const UcxOptions& options) {
  UcxContextSettings made;
  ASSIGN_OR_RETURN(made.library, supported_version());
  // 1.13 ignores these two in ucp_config_modify, silently; default segments halve the speed of tcp.
  ::setenv("UCX_TCP_TX_SEG_SIZE", "256k", 0);
  ::setenv("UCX_TCP_RX_SEG_SIZE", "256k", 0);
  ucp_config_t* raw_config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &raw_config);
  if (status != UCS_OK) return ucx_failure("ucp_config_read", status);
  const Config config(raw_config);
  made.transports = value_of("UCX_TLS", options.transports);
  // Without it, PEER error handling makes UCX leave shared memory for tcp and say nothing.
  made.mm_error_handling = is_yes(value_of("UCX_MM_ERROR_HANDLING", "y"));
  RETURN_IF_ERROR(set_unless_given(config, "TLS", options.transports));
  if (may_map_memory(made.transports))  // else UCX warns of a setting that nothing reads
    RETURN_IF_ERROR(set_unless_given(config, "MM_ERROR_HANDLING", "y"));
  RETURN_IF_ERROR(set_unless_given(config, "KEEPALIVE_INTERVAL", "100ms"));

  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "penstock";
  ucp_context_h context = nullptr;
  status = ucp_init(&params, config.get(), &context);
  if (status != UCS_OK) {
    Failure failure = ucx_failure("ucp_init with UCX_TLS=" + made.transports, status);
    failure.message += "; `ucx_info -d` lists the transports of this machine";
    return failure;
  }
  made.context.reset(context);
  return made;
}

Result<UcxWorker> make_ucx_worker(ucp_context_h context, ucp_am_handler_param_t handler) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  ucp_worker_h made = nullptr;
  ucs_status_t status = ucp_worker_create(context, &params, &made);
  if (status != UCS_OK) return ucx_failure("ucp_worker_create", status);
  UcxWorker worker(made);
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  status = ucp_worker_set_am_recv_handler(made, &handler);
  if (status != UCS_OK) return ucx_failure("ucp_worker_set_am_recv_handler", status);
  return worker;
}

Result<std::string> ucx_worker_address(ucp_worker_h worker) {
  ucp_address_t* bytes = nullptr;
  size_t length = 0;
  const ucs_status_t status = ucp_worker_get_address(worker, &bytes, &length);
  if (status != UCS_OK) return ucx_failure("ucp_worker_get_address", status);
  std::string address(reinterpret_cast<const char*>(bytes), length);
  ucp_worker_release_address(worker, bytes);
  return address;
}

void progress_ucx_until(ucp_worker_h worker, const std::function<bool()>& done) {
  constexpr int kRounds = 100, kRoundMs = 5;
  int fd = -1;
  const bool can_sleep = ucp_worker_get_efd(worker, &fd) == UCS_OK;
  for (int round = 0; round < kRounds; ++round) {
    while (ucp_worker_progress(worker) != 0) {
    }
    if (done()) return;
    if (can_sleep && ucp_worker_arm(worker) != UCS_OK) continue;
    pollfd waiting{fd, POLLIN, 0};
    ::poll(&waiting, can_sleep ? 1 : 0, kRoundMs);
  }
}

void flush_ucx_worker(ucp_worker_h worker) {
  ucp_request_param_t param{};
  ucs_status_ptr_t flushing = ucp_worker_flush_nbx(worker, &param);
  if (!UCS_PTR_IS_PTR(flushing)) return;
  progress_ucx_until(worker, [flushing] { return ucp_request_check_status(flushing) != UCS_INPROGRESS; });
  ucp_request_free(flushing);
}

}  // namespace penstock
