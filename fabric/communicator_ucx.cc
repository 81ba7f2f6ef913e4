#include "fabric/communicator_ucx.h"

#include <poll.h>
#include <ucp/api/ucp.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <optional>

#include "fabric/communicator_operation.h"
#include "fabric/context_ucx.h"
#include "fabric/process_watch.h"

namespace penstock {
namespace {

constexpr unsigned kMessageId = 2;
constexpr Duration kExitGrace = Duration::from_ms(50);
constexpr int kSettlingGroup = 1;           // RankWatch has the control messages of group 0
constexpr size_t kEagerBytesMax = 8 << 10;  // beyond: fetched straight into the receiver's memory

// In front of every message.
struct Header {
  uint64_t key;
  CallSignature signature;
  uint64_t bytes;
  int32_t source;
  int32_t reserved;
};

using MessageName = std::pair<int, uint64_t>;  // source, key

class UcxLink final : public PointToPoint {
 public:
  UcxLink(UcxContextSettings settings, const RankEnvironment& environment)
      : settings_(std::move(settings)), rank_(environment.rank), size_(environment.world_size) {}
  ~UcxLink() override {
    abandon();
    worker_.reset();  // it may still hand back requests, which must exist
  }
  Status open();
  Result<std::string> address() const;
  Status connect(const std::vector<std::string>& addresses);
  // Two rounds of messages with all others. UCX connects when first used, and a rank that ends meanwhile
  // takes what it had to say with it; after this every connection carries both ways.
  Status settle(Duration timeout);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void post_send(Transfer& transfer) override;
  void post_receive(Transfer& transfer) override;
  bool progress() override;
  void sleep(std::chrono::milliseconds at_most) override;
  Status peer_failure(int peer) const override {
    const auto& failure = peers_[static_cast<size_t>(peer)].failure;
    return failure ? Status(*failure) : Status();
  }
  void abandon() override;

 private:
  struct Peer {
    UcxLink* link = nullptr;
    ucp_ep_h endpoint = nullptr;
    UniqueFd pidfd;
    std::optional<TimePoint> exited;
    std::optional<Failure> failure;
  };
  // What UCX holds for us: `transfer` is null once nobody waits for it.
  struct Request {
    UcxLink* link = nullptr;
    Transfer* transfer = nullptr;
    Header header{};
  };
  struct Unexpected {
    Header header{};
    std::string body;            // eager, copied
    void* descriptor = nullptr;  // rendezvous: to be fetched
  };

  Request& new_request(Transfer& transfer) { return requests_.emplace_back(Request{this, &transfer, {}}); }
  void send_to_self(Transfer& transfer);
  void finish(Request& request, bool failed);
  void deliver(const Header& header, const void* data, Transfer& transfer);
  void fetch(const Header& header, void* descriptor, Transfer& transfer);
  void fail_receives_from_the_dead();
  void watch_processes();
  void finish_all(const std::function<ucs_status_ptr_t(const Peer&)>& start);
  static void fail_transfer(Transfer& transfer) {
    transfer.failed = true;
    transfer.done = true;
  }
  static void on_sent(void* request, ucs_status_t status, void* user_data);
  static void on_fetched(void* request, ucs_status_t status, size_t length, void* user_data);
  static void on_endpoint_error(void* arg, ucp_ep_h endpoint, ucs_status_t status);
  static ucs_status_t on_message(void* arg, const void* header, size_t header_length, void* data,
                                 size_t length, const ucp_am_recv_param_t* param);

  UcxContextSettings settings_;
  const int rank_, size_;
  UcxWorker worker_;
  int worker_fd_ = -1;
  std::vector<Peer> peers_;
  std::map<MessageName, Transfer*> posted_;
  std::map<MessageName, Unexpected> unexpected_;
  std::list<Request> requests_;
  uint64_t events_ = 0;  // completions and arrivals so far
  unsigned progress_calls_ = 0;
  bool somebody_failed_ = false, abandoned_ = false;
};

Status UcxLink::open() {
  ucp_am_handler_param_t handler{};
  handler.id = kMessageId;
  handler.cb = on_message;
  handler.arg = this;
  ASSIGN_OR_RETURN(worker_, make_ucx_worker(settings_.context.get(), handler));
  const ucs_status_t status = ucp_worker_get_efd(worker_.get(), &worker_fd_);
  if (status != UCS_OK) return ucx_failure("ucp_worker_get_efd", status);
  peers_ = std::vector<Peer>(static_cast<size_t>(size_));
  return {};
}

// What another rank has to know to connect, and what both must agree on first.
Result<std::string> UcxLink::address() const {
  PeerAddress own;
  ASSIGN_OR_RETURN(own.identity, identify_this_process());
  std::string text = settings_.library + '\n' + settings_.transports + '\n' +
                     (settings_.mm_error_handling ? "y" : "n") + '\n' + own.identity.host + '\n' +
                     std::to_string(own.identity.pid_namespace) + '\n' + std::to_string(own.identity.pid) +
                     '\n' + std::to_string(own.identity.start_ticks) + '\n';
  ASSIGN_OR_RETURN(const std::string worker, ucx_worker_address(worker_.get()));
  return text + worker;
}

namespace {
constexpr size_t kAddressLines = 7;

Result<PeerAddress> parse_address(const std::string& text) {
  std::vector<std::string> lines;
  size_t at = 0;
  while (lines.size() < kAddressLines) {
    const size_t end = text.find('\n', at);
    if (end == std::string::npos) return fail(Error::kCorrupt, "its address is not one of this version");
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  PeerAddress address;
  address.identity.library = lines[0];
  address.identity.transports = lines[1];
  address.identity.mm_error_handling = lines[2] == "y";
  address.identity.host = lines[3];
  address.identity.pid_namespace = std::strtoull(lines[4].c_str(), nullptr, 10);
  address.identity.pid = static_cast<uint32_t>(std::strtoul(lines[5].c_str(), nullptr, 10));
  address.identity.start_ticks = std::strtoull(lines[6].c_str(), nullptr, 10);
  address.worker = text.substr(at);
  return address;
}
}  // namespace

Status UcxLink::connect(const std::vector<std::string>& addresses) {
  ASSIGN_OR_RETURN(const PeerAddress own, parse_address(addresses[static_cast<size_t>(rank_)]));
  for (int rank = 0; rank < size_; ++rank) {
    Peer& peer = peers_[static_cast<size_t>(rank)];
    peer.link = this;
    const std::string who = "rank " + std::to_string(rank);
    auto parsed = parse_address(addresses[static_cast<size_t>(rank)]);
    if (!parsed.ok()) return std::move(parsed).with_context(who).failure();
    if (rank == rank_) continue;
    RETURN_IF_ERROR(check_compatible(own.identity, parsed->identity).with_context(who));
    if (own.identity.host == parsed->identity.host &&
        own.identity.pid_namespace == parsed->identity.pid_namespace) {
      // Where exits cannot be watched, UCX and the deadline find them, later.
      auto watched = watch_process(parsed->identity);
      if (watched.ok())
        peer.pidfd = std::move(*watched);
      else if (watched.code() == Error::kUnavailable)
        return fail(Error::kUnavailable, who + " has exited");
    }
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(parsed->worker.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = on_endpoint_error;
    params.err_handler.arg = &peer;
    const ucs_status_t status = ucp_ep_create(worker_.get(), &params, &peer.endpoint);
    if (status != UCS_OK) return ucx_failure("ucp_ep_create to " + who, status);
  }
  return {};
}

Status UcxLink::settle(Duration timeout) {
  const TimePoint end = SystemClock().now() + timeout;
  constexpr uint64_t kRounds = 2;  // the peer reaches us; the peer was reached by us
  for (uint64_t round = 0; round < kRounds; ++round) {
    std::deque<Transfer> transfers;
    for (int peer = 0; peer < size_; ++peer)
      for (const bool receives : {true, false}) {
        if (peer == rank_) continue;
        Transfer& transfer = transfers.emplace_back();
        transfer.peer = peer;
        transfer.key = message_key(Call::kControl, kSettlingGroup, 0, round);
        transfer.receives = receives;
        receives ? post_receive(transfer) : post_send(transfer);
      }
    for (const Transfer& transfer : transfers) {
      while (!transfer.done && SystemClock().now() < end)
        if (!progress()) sleep(std::chrono::milliseconds(10));
      if (transfer.done && !transfer.failed) continue;
      abandon();  // `transfers` goes away
      const std::string who = "rank " + std::to_string(transfer.peer);
      RETURN_IF_ERROR(peer_failure(transfer.peer).with_context(who));
      return fail(Error::kDeadlineExceeded, who + " exchanged addresses and then did not answer");
    }
  }
  return {};
}

void UcxLink::post_send(Transfer& transfer) {
  Peer& peer = peers_[static_cast<size_t>(transfer.peer)];
  if (abandoned_ || peer.failure) return fail_transfer(transfer);
  if (transfer.peer == rank_) return send_to_self(transfer);
  Request& request = new_request(transfer);
  request.header = {transfer.key, transfer.signature, transfer.bytes, rank_, 0};
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.cb.send = on_sent;
  param.user_data = &request;
  param.flags = transfer.bytes <= kEagerBytesMax ? UCP_AM_SEND_FLAG_EAGER : UCP_AM_SEND_FLAG_RNDV;
  ucs_status_ptr_t posted = ucp_am_send_nbx(peer.endpoint, kMessageId, &request.header, sizeof(Header),
                                            transfer.data, transfer.bytes, &param);
  if (posted == nullptr) {
    finish(request, false);
  } else if (UCS_PTR_IS_ERR(posted)) {
    if (!peer.failure) peer.failure = ucx_failure("send", UCS_PTR_STATUS(posted));
    somebody_failed_ = true;
    finish(request, true);
  }
}

void UcxLink::send_to_self(Transfer& transfer) {
  const Header header{transfer.key, transfer.signature, transfer.bytes, rank_, 0};
  const MessageName name{rank_, transfer.key};
  if (const auto found = posted_.find(name); found != posted_.end()) {
    Transfer& receive = *found->second;
    posted_.erase(found);
    deliver(header, transfer.data, receive);
  } else {
    unexpected_[name] = {header, std::string(reinterpret_cast<const char*>(transfer.data), transfer.bytes),
                         nullptr};
  }
  transfer.done = true;
}

void UcxLink::post_receive(Transfer& transfer) {
  const MessageName name{transfer.peer, transfer.key};
  if (const auto found = unexpected_.find(name); found != unexpected_.end()) {
    const Unexpected early = std::move(found->second);
    unexpected_.erase(found);
    const bool fits = early.header.bytes <= transfer.bytes;
    if (early.descriptor != nullptr && fits) return fetch(early.header, early.descriptor, transfer);
    if (early.descriptor != nullptr) ucp_am_data_release(worker_.get(), early.descriptor);
    deliver(early.header, early.body.data(), transfer);
  } else if (abandoned_ || peers_[static_cast<size_t>(transfer.peer)].failure) {
    fail_transfer(transfer);
  } else {
    posted_[name] = &transfer;
  }
}

// More than there is room for is a mismatch: the receive says so, and its memory stays as it was.
void UcxLink::deliver(const Header& header, const void* data, Transfer& transfer) {
  if (header.bytes <= transfer.bytes && header.bytes > 0) std::memcpy(transfer.data, data, header.bytes);
  transfer.received = header.signature;
  transfer.received_bytes = header.bytes;
  transfer.done = true;
  events_ += 1;
}

void UcxLink::fetch(const Header& header, void* descriptor, Transfer& transfer) {
  transfer.received = header.signature;
  transfer.received_bytes = header.bytes;
  Request& request = new_request(transfer);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.recv_am = on_fetched;
  param.user_data = &request;
  ucs_status_ptr_t posted =
      ucp_am_recv_data_nbx(worker_.get(), descriptor, transfer.data, header.bytes, &param);
  if (posted == nullptr || UCS_PTR_IS_ERR(posted)) finish(request, posted != nullptr);
}

void UcxLink::finish(Request& request, bool failed) {
  if (request.transfer != nullptr) {
    request.transfer->failed = failed;
    request.transfer->done = true;
  }
  request.link->events_ += 1;
  requests_.remove_if([&request](const Request& other) { return &other == &request; });
}

void UcxLink::on_sent(void* request, ucs_status_t status, void* user_data) {
  auto* sent = static_cast<Request*>(user_data);
  sent->link->finish(*sent, status != UCS_OK);
  ucp_request_free(request);
}

void UcxLink::on_fetched(void* request, ucs_status_t status, size_t, void* user_data) {
  auto* fetched = static_cast<Request*>(user_data);
  fetched->link->finish(*fetched, status != UCS_OK);
  ucp_request_free(request);
}

void UcxLink::on_endpoint_error(void* arg, ucp_ep_h, ucs_status_t status) {
  auto* peer = static_cast<Peer*>(arg);
  if (!peer->failure) peer->failure = ucx_failure("connection", status);
  peer->link->somebody_failed_ = true;
}

ucs_status_t UcxLink::on_message(void* arg, const void* header, size_t header_length, void* data,
                                 size_t length, const ucp_am_recv_param_t* param) {
  auto* link = static_cast<UcxLink*>(arg);
  Header read{};
  if (header_length != sizeof(read) || link->abandoned_) return UCS_OK;  // dropped
  std::memcpy(&read, header, sizeof(read));
  if (read.bytes != length) return UCS_OK;
  link->events_ += 1;
  const bool rendezvous = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  const MessageName name{read.source, read.key};
  const auto found = link->posted_.find(name);
  if (found != link->posted_.end()) {
    Transfer& transfer = *found->second;
    link->posted_.erase(found);
    if (!rendezvous || read.bytes > transfer.bytes) {
      link->deliver(read, data, transfer);
      return UCS_OK;  // UCX drops what was not fetched
    }
    link->fetch(read, data, transfer);
    return UCS_INPROGRESS;
  }
  Unexpected& early = link->unexpected_[name];
  early.header = read;
  if (!rendezvous) {
    early.body.assign(static_cast<const char*>(data), length);
    return UCS_OK;
  }
  early.descriptor = data;
  return UCS_INPROGRESS;  // the descriptor stays ours
}

bool UcxLink::progress() {
  if (abandoned_) return false;
  const uint64_t before = events_;
  while (ucp_worker_progress(worker_.get()) != 0 && events_ == before) {
  }
  constexpr unsigned kCallsPerLook = 256;
  if (++progress_calls_ % kCallsPerLook == 0) watch_processes();
  if (std::exchange(somebody_failed_, false)) fail_receives_from_the_dead();
  return events_ != before;
}

// A rank that ends because of another has said so first, and its word may be slower than its exit: another
// sender can hold the receive queue up. So an exit counts after a grace, in the order of the exits.
void UcxLink::watch_processes() {
  const TimePoint now = SystemClock().now();
  for (Peer& peer : peers_) {
    if (peer.failure || !peer.pidfd.valid() || !has_exited(peer.pidfd)) continue;
    if (!peer.exited) peer.exited = now;
    if (now - *peer.exited < kExitGrace) continue;
    peer.failure = fail(Error::kUnavailable, "its process has exited");
    somebody_failed_ = true;
  }
}

void UcxLink::fail_receives_from_the_dead() {
  events_ += 1;
  for (auto entry = posted_.begin(); entry != posted_.end();) {
    const bool dead = peers_[static_cast<size_t>(entry->first.first)].failure.has_value();
    if (dead) fail_transfer(*entry->second);
    entry = dead ? posted_.erase(entry) : std::next(entry);
  }
}

void UcxLink::sleep(std::chrono::milliseconds at_most) {
  if (abandoned_) return;
  watch_processes();
  if (somebody_failed_ || ucp_worker_arm(worker_.get()) != UCS_OK) return;
  pollfd waiting{worker_fd_, POLLIN, 0};
  ::poll(&waiting, 1, static_cast<int>(at_most.count()));
}

// Starts something at every connection, and waits for all of it.
void UcxLink::finish_all(const std::function<ucs_status_ptr_t(const Peer&)>& start) {
  std::vector<ucs_status_ptr_t> started;
  for (const Peer& peer : peers_) {
    if (peer.endpoint == nullptr) continue;
    ucs_status_ptr_t request = start(peer);
    if (UCS_PTR_IS_PTR(request)) started.push_back(request);
  }
  progress_ucx_until(worker_.get(), [&started] {
    return std::all_of(started.begin(), started.end(), [](ucs_status_ptr_t request) {
      return ucp_request_check_status(request) != UCS_INPROGRESS;
    });
  });
  for (ucs_status_ptr_t request : started) ucp_request_free(request);
}

void UcxLink::abandon() {
  if (std::exchange(abandoned_, true) || worker_ == nullptr) return;
  posted_.clear();
  // A last word has reached its rank before the connection goes, or it goes with it.
  ucp_request_param_t param{};
  finish_all([&param](const Peer& peer) -> ucs_status_ptr_t {
    return peer.failure ? nullptr : ucp_ep_flush_nbx(peer.endpoint, &param);
  });
  for (auto& [name, early] : unexpected_)
    if (early.descriptor != nullptr) ucp_am_data_release(worker_.get(), early.descriptor);
  unexpected_.clear();
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  finish_all([&param](const Peer& peer) { return ucp_ep_close_nbx(peer.endpoint, &param); });
  progress_ucx_until(worker_.get(), [this] { return requests_.empty(); });
  // UCX never progresses again, so a transfer that it would not give back stays untouched.
  for (Request& request : requests_) request.transfer = nullptr;
  flush_ucx_worker(worker_.get());
}

}  // namespace

Result<std::unique_ptr<PointToPoint>> make_ucx_link(const RankEnvironment& environment,
                                                    const UcxOptions& options, Duration timeout) {
  ASSIGN_OR_RETURN(UcxContextSettings settings, make_ucx_context(options));
  auto link = std::make_unique<UcxLink>(std::move(settings), environment);
  RETURN_IF_ERROR(link->open());
  ASSIGN_OR_RETURN(const std::string own, link->address());
  ASSIGN_OR_RETURN(const std::vector<std::string> addresses, exchange_addresses(environment, own, timeout));
  RETURN_IF_ERROR(link->connect(addresses));
  RETURN_IF_ERROR(link->settle(timeout));
  return std::unique_ptr<PointToPoint>(std::move(link));
}

}  // namespace penstock
