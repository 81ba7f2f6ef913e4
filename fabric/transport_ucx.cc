#include "fabric/transport_ucx.h"

#include <sys/epoll.h>
#include <ucp/api/ucp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <unordered_map>

#include "base/fd.h"
#include "fabric/context_ucx.h"
#include "fabric/lane_report.h"
#include "fabric/memory_limits.h"
#include "fabric/process_watch.h"

namespace penstock {
namespace {

constexpr unsigned kActiveMessageId = 1;
constexpr size_t kMessageBytesMax = 64u << 20;
constexpr int kPollsPerProgress = 16;
constexpr unsigned kProgressPerExitCheck = 64;  // a loop with always something to do never comes to arm()

// Travels in front of every message: UCX does not say who sent one.
struct MessageHeader {
  uint64_t instance;
  uint64_t type;
};

// One process at the other end, shared by all connections to it: one pidfd however often it reconnects.
struct RemoteProcess {
  UniqueFd pidfd;
  bool exited = false;
};

class UcxTransport;

struct Connection {
  UcxTransport* transport = nullptr;
  PeerId id;
  uint64_t instance = 0;
  uint32_t pid = 0;
  bool shared_memory = false;
  std::shared_ptr<RemoteProcess> process;
  ucp_ep_h endpoint = nullptr;
  void* closing = nullptr;  // UCX request of the close under way
  std::vector<ucp_rkey_h> keys;
  std::vector<MemoryDescriptor> memories;  // same index as keys
  std::optional<Failure> failure;          // set by UCX's callback; handled after its progress returns
  bool open = true;
  bool settled = false;  // failed, and UCX has given back every operation
  bool failure_reported = false;
  size_t outstanding = 0;  // operations UCX still holds, their completions not yet queued
};

// An operation that UCX did not finish at once.
struct Operation {
  Connection* connection;
  Completion done;
  const char* name;
  std::string body;  // of a message: UCX reads header and body until the end
  MessageHeader header{};
};

class UcxTransport final : public Transport {
 public:
  explicit UcxTransport(UcxContextSettings settings) : settings_(std::move(settings)) {}
  ~UcxTransport() override;
  Status open();

  const PeerAddress& address() const override { return address_; }
  Result<LocalMemory> allocate(size_t bytes) override;
  Result<PeerId> connect(const PeerAddress& peer) override;
  Result<RemoteMemoryId> import_memory(PeerId peer, const MemoryDescriptor& memory) override;
  Status put(PeerId peer, const std::byte* local, RemoteMemoryId remote, uint64_t offset, size_t bytes,
             Completion done) override;
  Status flush(PeerId peer, Completion done) override;
  Status send_message(PeerId peer, MessageType type, std::span<const std::byte> body) override;
  void set_message_handler(MessageType type, MessageHandler handler) override {
    handlers_[static_cast<size_t>(type)] = std::move(handler);
  }
  void add_peer_failed_listener(PeerFailedHandler listener) override {
    listeners_.push_back(std::move(listener));
  }
  void close(PeerId peer) override;
  bool may_write(PeerId peer) const override;
  uint64_t instance_of(PeerId peer) const override;
  PeerId connection_to(uint64_t instance) const override {
    const auto found = open_by_instance_.find(instance);
    return found == open_by_instance_.end() ? PeerId() : found->second;
  }
  LaneReport lanes(PeerId peer) const override;
  bool progress() override;
  int event_fd() const override { return epoll_.get(); }
  bool arm() override;

 private:
  struct Received {
    uint64_t instance;
    size_t type;
    std::string body;
  };

  Connection* find_open(PeerId peer);
  Result<std::shared_ptr<RemoteProcess>> watch(const TransportIdentity& identity);
  Status posted(ucs_status_ptr_t request, std::unique_ptr<Operation> operation);
  void destroy_endpoint(Connection& connection);
  bool finish_closing();
  bool find_exited();
  bool deliver();
  bool report_failures();
  Failure not_connected(PeerId peer) const;

  static void on_operation_done(void* request, ucs_status_t status, void* user_data);
  static void on_endpoint_error(void* arg, ucp_ep_h, ucs_status_t status);
  static ucs_status_t on_active_message(void* arg, const void* header, size_t header_length, void* data,
                                        size_t length, const ucp_am_recv_param_t* param);

  UcxContextSettings settings_;
  UcxWorker worker_;
  PeerAddress address_;
  UniqueFd epoll_;
  std::vector<ucp_mem_h> memories_;
  std::map<PeerId, std::unique_ptr<Connection>> connections_;  // also closed ones, while may_write()
  std::unordered_map<uint64_t, PeerId> open_by_instance_;
  std::unordered_map<uint64_t, std::weak_ptr<RemoteProcess>> processes_;
  uint32_t last_peer_ = 0;
  unsigned progress_calls_ = 0;
  std::vector<std::pair<Completion, Status>> ready_;
  std::vector<Received> received_;
  std::array<MessageHandler, static_cast<size_t>(MessageType::kCount)> handlers_;
  std::vector<PeerFailedHandler> listeners_;
};

Status UcxTransport::open() {
  ucp_am_handler_param_t handler{};
  handler.id = kActiveMessageId;
  handler.cb = on_active_message;
  handler.arg = this;
  ASSIGN_OR_RETURN(worker_, make_ucx_worker(settings_.context.get(), handler));

  ASSIGN_OR_RETURN(address_.identity, identify_this_process());
  address_.identity.library = settings_.library;
  address_.identity.transports = settings_.transports;
  address_.identity.mm_error_handling = settings_.mm_error_handling;
  ASSIGN_OR_RETURN(address_.worker, ucx_worker_address(worker_.get()));

  int worker_fd = -1;
  const ucs_status_t status = ucp_worker_get_efd(worker_.get(), &worker_fd);
  if (status != UCS_OK) return ucx_failure("ucp_worker_get_efd", status);
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  if (!epoll_.valid() || ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, worker_fd, &event) != 0)
    return fail(Error::kIo, std::string("epoll on the UCX worker: ") + std::strerror(errno));
  return {};
}

UcxTransport::~UcxTransport() {
  if (worker_ == nullptr) return;  // open() failed
  // Completions of what is outstanding do not run any more: whoever gave them may be gone.
  for (auto& [id, connection] : connections_) destroy_endpoint(*connection);
  progress_ucx_until(worker_.get(), [this] {
    finish_closing();
    return std::none_of(connections_.begin(), connections_.end(),
                        [](const auto& entry) { return entry.second->closing != nullptr; });
  });
  flush_ucx_worker(worker_.get());
  for (ucp_mem_h memory : memories_) ucp_mem_unmap(settings_.context.get(), memory);
}

Result<LocalMemory> UcxTransport::allocate(size_t bytes) {
  RETURN_IF_ERROR(check_memory_limits(read_memory_limits(), settings_.transports, bytes));
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  params.length = bytes;
  params.flags = UCP_MEM_MAP_ALLOCATE;
  ucp_mem_h memory = nullptr;
  ucs_status_t status = ucp_mem_map(settings_.context.get(), &params, &memory);
  if (status != UCS_OK) {
    Failure failure = ucx_failure("ucp_mem_map of " + std::to_string(bytes) + " bytes", status);
    failure.code = Error::kResourceExhausted;
    return failure;
  }
  memories_.push_back(memory);
  ucp_mem_attr_t attributes{};
  attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
  status = ucp_mem_query(memory, &attributes);
  if (status != UCS_OK) return ucx_failure("ucp_mem_query", status);
  void* key = nullptr;
  size_t key_length = 0;
  status = ucp_rkey_pack(settings_.context.get(), memory, &key, &key_length);
  if (status != UCS_OK) return ucx_failure("ucp_rkey_pack", status);
  LocalMemory local;
  local.base = static_cast<std::byte*>(attributes.address);
  local.bytes = bytes;
  local.key.assign(static_cast<const char*>(key), key_length);
  ucp_rkey_buffer_release(key);
  std::memset(local.base, 0, bytes);  // every page exists from here on: no fault on the first request
  return local;
}

Result<std::shared_ptr<RemoteProcess>> UcxTransport::watch(const TransportIdentity& identity) {
  std::weak_ptr<RemoteProcess>& known = processes_[identity.instance];
  if (auto process = known.lock()) return process;
  ASSIGN_OR_RETURN(UniqueFd pidfd, watch_process(identity));
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, pidfd.get(), &event) != 0)
    return fail(Error::kIo, std::string("epoll on a pidfd: ") + std::strerror(errno));
  auto process = std::make_shared<RemoteProcess>();
  process->pidfd = std::move(pidfd);
  known = process;
  return process;
}

Result<PeerId> UcxTransport::connect(const PeerAddress& peer) {
  RETURN_IF_ERROR(check_compatible(address_.identity, peer.identity));
  if (open_by_instance_.contains(peer.identity.instance))
    return fail(Error::kInvalidArgument, "connected to this process already");
  auto connection = std::make_unique<Connection>();
  connection->transport = this;
  connection->instance = peer.identity.instance;
  connection->pid = peer.identity.pid;
  connection->shared_memory = shared_memory_possible(address_.identity, peer.identity);
  const bool same_kernel = address_.identity.host == peer.identity.host &&
                           address_.identity.pid_namespace == peer.identity.pid_namespace;
  if (same_kernel) {
    ASSIGN_OR_RETURN(connection->process, watch(peer.identity));
    if (connection->process->exited) return fail(Error::kUnavailable, "the process has exited");
  }
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(peer.worker.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = on_endpoint_error;
  params.err_handler.arg = connection.get();
  const ucs_status_t status = ucp_ep_create(worker_.get(), &params, &connection->endpoint);
  if (status != UCS_OK) return ucx_failure("ucp_ep_create", status);
  connection->id = PeerId(++last_peer_);
  const PeerId id = connection->id;
  open_by_instance_[connection->instance] = id;
  connections_[id] = std::move(connection);
  return id;
}

Connection* UcxTransport::find_open(PeerId peer) {
  const auto found = connections_.find(peer);
  if (found == connections_.end() || !found->second->open || found->second->failure) return nullptr;
  return found->second.get();
}

Failure UcxTransport::not_connected(PeerId peer) const {
  return fail(Error::kUnavailable, "peer " + std::to_string(peer.value()) + " is not connected");
}

Result<RemoteMemoryId> UcxTransport::import_memory(PeerId peer, const MemoryDescriptor& memory) {
  Connection* connection = find_open(peer);
  if (connection == nullptr) return not_connected(peer);
  for (size_t i = 0; i < connection->memories.size(); ++i) {
    const MemoryDescriptor& known = connection->memories[i];
    if (known.base == memory.base && known.bytes == memory.bytes && known.key == memory.key)
      return RemoteMemoryId(static_cast<uint32_t>(i + 1));
  }
  if (memory.key.empty() || memory.base + memory.bytes < memory.base)
    return fail(Error::kInvalidArgument,
                "memory descriptor without a key, or past the end of the address space");
  // Unpacking maps a shared-memory peer's region; of a dead peer it crashes (transport_ucx.h).
  if (connection->process != nullptr && has_exited(connection->process->pidfd))
    return fail(Error::kUnavailable, "the peer's process has exited");
  if (connection->shared_memory && !still_maps(connection->pid, memory.base))
    return fail(Error::kUnavailable, "the peer has given this memory back");
  ucp_rkey_h key = nullptr;
  const ucs_status_t status = ucp_ep_rkey_unpack(connection->endpoint, memory.key.data(), &key);
  if (status != UCS_OK) return ucx_failure("ucp_ep_rkey_unpack", status);
  connection->keys.push_back(key);
  connection->memories.push_back(memory);
  return RemoteMemoryId(static_cast<uint32_t>(connection->keys.size()));
}

// Takes what a UCX call returned: done at once, failed at once, or under way.
Status UcxTransport::posted(ucs_status_ptr_t request, std::unique_ptr<Operation> operation) {
  if (UCS_PTR_IS_ERR(request)) return ucx_failure(operation->name, UCS_PTR_STATUS(request));
  if (request == nullptr) {
    if (operation->done) ready_.emplace_back(std::move(operation->done), Status());
    return {};
  }
  operation->connection->outstanding += 1;
  static_cast<void>(operation.release());  // on_operation_done owns it
  return {};
}

void UcxTransport::on_operation_done(void* request, ucs_status_t status, void* user_data) {
  const std::unique_ptr<Operation> operation(static_cast<Operation*>(user_data));
  operation->connection->outstanding -= 1;
  if (operation->done)
    operation->connection->transport->ready_.emplace_back(
        std::move(operation->done), status == UCS_OK ? Status() : ucx_failure(operation->name, status));
  ucp_request_free(request);
}

namespace {
ucp_request_param_t callback_param(Operation* operation, ucp_send_nbx_callback_t callback) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = callback;
  param.user_data = operation;
  return param;
}
}  // namespace

Status UcxTransport::put(PeerId peer, const std::byte* local, RemoteMemoryId remote, uint64_t offset,
                         size_t bytes, Completion done) {
  Connection* connection = find_open(peer);
  if (connection == nullptr) return not_connected(peer);
  const size_t index = remote.value() - 1;
  if (index >= connection->keys.size())
    return fail(Error::kInvalidArgument, "put into memory that was not imported");
  const MemoryDescriptor& memory = connection->memories[index];
  if (offset > memory.bytes || bytes > memory.bytes - offset)
    return fail(Error::kInvalidArgument, "put of " + std::to_string(bytes) + " bytes at " +
                                             std::to_string(offset) + " into a region of " +
                                             std::to_string(memory.bytes));
  auto operation = std::make_unique<Operation>();
  operation->connection = connection;
  operation->done = std::move(done);
  operation->name = "put";
  const ucp_request_param_t param = callback_param(operation.get(), on_operation_done);
  ucs_status_ptr_t request =
      ucp_put_nbx(connection->endpoint, local, bytes, memory.base + offset, connection->keys[index], &param);
  return posted(request, std::move(operation));
}

Status UcxTransport::flush(PeerId peer, Completion done) {
  Connection* connection = find_open(peer);
  if (connection == nullptr) return not_connected(peer);
  auto operation = std::make_unique<Operation>();
  operation->connection = connection;
  operation->done = std::move(done);
  operation->name = "flush";
  const ucp_request_param_t param = callback_param(operation.get(), on_operation_done);
  ucs_status_ptr_t request = ucp_ep_flush_nbx(connection->endpoint, &param);
  return posted(request, std::move(operation));
}

Status UcxTransport::send_message(PeerId peer, MessageType type, std::span<const std::byte> body) {
  Connection* connection = find_open(peer);
  if (connection == nullptr) return not_connected(peer);
  if (body.size() > kMessageBytesMax)
    return fail(Error::kInvalidArgument, "message of " + std::to_string(body.size()) + " bytes");
  auto operation = std::make_unique<Operation>();
  operation->connection = connection;
  operation->name = "message";
  operation->header = {address_.identity.instance, static_cast<uint64_t>(type)};
  operation->body.assign(reinterpret_cast<const char*>(body.data()), body.size());
  ucp_request_param_t param = callback_param(operation.get(), on_operation_done);
  param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;  // rendezvous would hand us a fetch instead of the bytes
  ucs_status_ptr_t request =
      ucp_am_send_nbx(connection->endpoint, kActiveMessageId, &operation->header, sizeof(operation->header),
                      operation->body.data(), operation->body.size(), &param);
  return posted(request, std::move(operation));
}

ucs_status_t UcxTransport::on_active_message(void* arg, const void* header, size_t header_length, void* data,
                                             size_t length, const ucp_am_recv_param_t* param) {
  auto* transport = static_cast<UcxTransport*>(arg);
  const bool whole = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0;
  if (header_length != sizeof(MessageHeader) || !whole) return UCS_OK;  // not from one of us: dropped
  MessageHeader read{};
  std::memcpy(&read, header, sizeof(read));
  if (read.type >= transport->handlers_.size()) return UCS_OK;
  // Copied, so that handlers run outside UCX and may call any verb.
  transport->received_.push_back(
      {read.instance, static_cast<size_t>(read.type), std::string(static_cast<const char*>(data), length)});
  return UCS_OK;
}

void UcxTransport::on_endpoint_error(void* arg, ucp_ep_h, ucs_status_t status) {
  auto* connection = static_cast<Connection*>(arg);
  if (!connection->failure)
    connection->failure =
        fail(Error::kUnavailable, std::string("connection failed: ") + ucs_status_string(status));
}

void UcxTransport::close(PeerId peer) {
  const auto found = connections_.find(peer);
  if (found == connections_.end()) return;
  found->second->failure_reported = true;  // asked for, not a failure
  destroy_endpoint(*found->second);
}

void UcxTransport::destroy_endpoint(Connection& connection) {
  if (!connection.open) return;
  connection.open = false;
  open_by_instance_.erase(connection.instance);
  for (ucp_rkey_h key : connection.keys) ucp_rkey_destroy(key);
  connection.keys.clear();
  connection.memories.clear();
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  ucs_status_ptr_t request = ucp_ep_close_nbx(connection.endpoint, &param);
  connection.endpoint = nullptr;
  connection.closing = UCS_PTR_IS_PTR(request) ? request : nullptr;
}

// Ends closes that UCX has finished and forgets connections that can no longer matter.
bool UcxTransport::finish_closing() {
  bool changed = false;
  for (auto entry = connections_.begin(); entry != connections_.end();) {
    Connection& connection = *entry->second;
    if (connection.closing != nullptr && ucp_request_check_status(connection.closing) != UCS_INPROGRESS) {
      ucp_request_free(connection.closing);
      connection.closing = nullptr;
      changed = true;
    }
    const bool over = !connection.open && connection.outstanding == 0 && connection.failure_reported;
    if (over && !may_write(connection.id)) {
      entry = connections_.erase(entry);
    } else {
      ++entry;
    }
  }
  return changed;
}

bool UcxTransport::may_write(PeerId peer) const {
  const auto found = connections_.find(peer);
  if (found == connections_.end()) return false;
  const Connection& connection = *found->second;
  if (connection.open || connection.closing != nullptr) return true;
  return connection.shared_memory && !connection.process->exited;
}

uint64_t UcxTransport::instance_of(PeerId peer) const {
  const auto found = connections_.find(peer);
  return found == connections_.end() ? 0 : found->second->instance;
}

LaneReport UcxTransport::lanes(PeerId peer) const {
  const auto found = connections_.find(peer);
  if (found == connections_.end() || found->second->endpoint == nullptr) return {};
  char* text = nullptr;
  size_t length = 0;
  FILE* stream = ::open_memstream(&text, &length);
  if (stream == nullptr) return {};
  ucp_ep_print_info(found->second->endpoint, stream);
  ::fclose(stream);
  LaneReport report = parse_lane_report({text, length});
  ::free(text);
  if (!found->second->shared_memory) report.shared_memory = false;
  return report;
}

// A killed peer that nobody reaped counts as alive in UCX; its pidfd says otherwise.
bool UcxTransport::find_exited() {
  bool found = false;
  for (auto entry = processes_.begin(); entry != processes_.end();) {
    const std::shared_ptr<RemoteProcess> process = entry->second.lock();
    if (process != nullptr && !process->exited && has_exited(process->pidfd)) {
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, process->pidfd.get(), nullptr);
      process->exited = found = true;
    }
    entry = process == nullptr ? processes_.erase(entry) : std::next(entry);
  }
  if (!found) return false;
  for (auto& [id, connection] : connections_) {
    const bool exited = connection->process != nullptr && connection->process->exited;
    if (exited && !connection->failure)
      connection->failure = fail(Error::kUnavailable, "the peer's process has exited");
  }
  return true;
}

bool UcxTransport::deliver() {
  if (ready_.empty() && received_.empty()) return false;
  std::vector<std::pair<Completion, Status>> ready;
  ready.swap(ready_);
  for (auto& [done, status] : ready) done(status);
  std::vector<Received> received;
  received.swap(received_);
  for (const Received& message : received) {
    const auto sender = open_by_instance_.find(message.instance);
    if (sender == open_by_instance_.end() || !handlers_[message.type]) continue;
    handlers_[message.type](sender->second, std::as_bytes(std::span(message.body)));
  }
  return true;
}

// A failure is told once UCX has given back every operation of the connection, and their completions ran.
bool UcxTransport::report_failures() {
  bool reported = false;
  std::vector<std::pair<PeerId, Failure>> failed;
  for (auto& [id, connection] : connections_) {
    if (!connection->failure || connection->failure_reported) continue;
    destroy_endpoint(*connection);
    if (connection->outstanding > 0) continue;
    if (!std::exchange(connection->settled, true)) {  // the last of its completions may be queued
      reported = true;
      continue;
    }
    connection->failure_reported = true;
    failed.emplace_back(id, *connection->failure);
  }
  for (const auto& [id, failure] : failed) {
    for (const PeerFailedHandler& listener : listeners_) listener(id, failure);
    reported = true;
  }
  return reported;
}

bool UcxTransport::progress() {
  bool worked = false;
  for (int i = 0; i < kPollsPerProgress && ucp_worker_progress(worker_.get()) != 0; ++i) worked = true;
  if (++progress_calls_ % kProgressPerExitCheck == 0) worked |= find_exited();
  worked |= deliver();
  worked |= report_failures();
  worked |= finish_closing();
  return worked;
}

bool UcxTransport::arm() {
  if (find_exited() || !ready_.empty() || !received_.empty()) return false;
  const bool failed = std::any_of(connections_.begin(), connections_.end(), [](const auto& entry) {
    const Connection& connection = *entry.second;  // a verb found it: progress() has yet to tell
    return connection.failure && !connection.failure_reported && connection.outstanding == 0;
  });
  if (failed) return false;
  return ucp_worker_arm(worker_.get()) == UCS_OK;
}

}  // namespace

Result<std::unique_ptr<Transport>> make_ucx_transport(const UcxOptions& options) {
  ASSIGN_OR_RETURN(UcxContextSettings settings, make_ucx_context(options));
  auto transport = std::make_unique<UcxTransport>(std::move(settings));
  RETURN_IF_ERROR(transport->open());
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace penstock
