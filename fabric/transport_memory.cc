#include "fabric/transport_memory.h"

#include <algorithm>
#include <cstring>

namespace penstock {

class MemoryTransport final : public Transport {
 public:
  MemoryTransport(MemoryNetwork& network, uint64_t instance) : network_(network) {
    address_.identity.library = "memory";
    address_.identity.host = "memory";
    address_.identity.instance = instance;
  }
  ~MemoryTransport() override { network_.kill(address_.identity.instance); }

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
  uint64_t instance_of(PeerId peer) const override {
    const auto found = connections_.find(peer);
    return found == connections_.end() ? 0 : found->second.instance;
  }
  PeerId connection_to(uint64_t instance) const override;
  LaneReport lanes(PeerId) const override { return {"memory", "memory", !network_.options_.network_lanes}; }
  bool progress() override;
  int event_fd() const override { return -1; }
  bool arm() override { return ready_.empty() && received_.empty() && failed_.empty(); }

 private:
  friend class MemoryNetwork;
  struct Flush {
    uint64_t last_put;  // waits for this put of the connection and all before it
    size_t puts_left;
    Completion done;
  };
  struct Connection {
    uint64_t instance = 0;
    bool open = true;
    std::vector<MemoryDescriptor> memories;
    uint64_t last_put = 0;
    size_t puts_in_flight = 0;
    std::vector<Flush> flushes;
    bool put_failed = false;  // as a queue pair in error: every later flush fails
  };
  struct Received {
    uint64_t from;
    MessageType type;
    std::string body;
  };
  Connection* find_open(PeerId peer) {
    const auto found = connections_.find(peer);
    return found == connections_.end() || !found->second.open ? nullptr : &found->second;
  }
  void put_ended(PeerId peer, uint64_t put_number, const Completion& done, const Status& status);
  void cancel(Connection& connection, const Failure& why);
  void peer_exited(uint64_t instance);
  // Over lanes of a network: whether the endpoint that was there when a put was posted is there still.
  bool accepts(uint64_t from, PeerId then) const {
    const PeerId now = connection_to(from);
    return now != PeerId() && (then == PeerId() || then == now);
  }

  MemoryNetwork& network_;
  PeerAddress address_;
  std::vector<std::unique_ptr<std::byte[]>> memories_;
  std::map<PeerId, Connection> connections_;
  uint32_t last_peer_ = 0;
  std::vector<std::pair<Completion, Status>> ready_;
  std::vector<Received> received_;
  std::vector<PeerId> failed_;
  MessageHandler handlers_[static_cast<size_t>(MessageType::kCount)];
  std::vector<PeerFailedHandler> listeners_;
};

Result<LocalMemory> MemoryTransport::allocate(size_t bytes) {
  memories_.push_back(std::make_unique<std::byte[]>(bytes));
  return LocalMemory{memories_.back().get(), bytes, "memory"};
}

Result<PeerId> MemoryTransport::connect(const PeerAddress& peer) {
  RETURN_IF_ERROR(check_compatible(address_.identity, peer.identity));
  const uint64_t instance = peer.identity.instance;
  if (connection_to(instance) != PeerId())
    return fail(Error::kInvalidArgument, "connected to this process already");
  if (network_.find(instance) == nullptr) return fail(Error::kUnavailable, "the process has exited");
  const PeerId id(++last_peer_);
  connections_[id].instance = instance;
  return id;
}

PeerId MemoryTransport::connection_to(uint64_t instance) const {
  for (const auto& [id, connection] : connections_) {
    if (connection.open && connection.instance == instance) return id;
  }
  return PeerId();
}

Result<RemoteMemoryId> MemoryTransport::import_memory(PeerId peer, const MemoryDescriptor& memory) {
  Connection* connection = find_open(peer);
  if (connection == nullptr) return fail(Error::kUnavailable, "not connected");
  for (size_t i = 0; i < connection->memories.size(); ++i) {
    const MemoryDescriptor& known = connection->memories[i];
    if (known.base == memory.base && known.bytes == memory.bytes && known.key == memory.key)
      return RemoteMemoryId(static_cast<uint32_t>(i + 1));
  }
  connection->memories.push_back(memory);
  return RemoteMemoryId(static_cast<uint32_t>(connection->memories.size()));
}

Status MemoryTransport::put(PeerId peer, const std::byte* local, RemoteMemoryId remote, uint64_t offset,
                            size_t bytes, Completion done) {
  Connection* connection = find_open(peer);
  if (connection == nullptr) return fail(Error::kUnavailable, "not connected");
  if (remote.value() - 1 >= connection->memories.size())
    return fail(Error::kInvalidArgument, "put into memory that was not imported");
  const MemoryDescriptor& memory = connection->memories[remote.value() - 1];
  if (offset > memory.bytes || bytes > memory.bytes - offset)
    return fail(Error::kInvalidArgument, "put outside the imported memory");
  MemoryNetwork::InFlight item;
  item.from = address_.identity.instance;
  item.to = connection->instance;
  item.connection = peer;
  item.source = local;
  item.target = reinterpret_cast<std::byte*>(memory.base) + offset;
  item.bytes = bytes;
  item.done = std::move(done);
  item.put_number = ++connection->last_put;
  item.is_put = true;
  if (const MemoryTransport* target = network_.find(item.to))
    item.target_connection = target->connection_to(item.from);
  network_.flight_.push_back(std::move(item));
  connection->puts_in_flight += 1;
  return {};
}

Status MemoryTransport::flush(PeerId peer, Completion done) {
  Connection* connection = find_open(peer);
  if (connection == nullptr) return fail(Error::kUnavailable, "not connected");
  if (connection->put_failed) {
    ready_.emplace_back(std::move(done), fail(Error::kUnavailable, "a lane has failed"));
  } else if (connection->puts_in_flight == 0) {
    ready_.emplace_back(std::move(done), Status());
  } else {
    connection->flushes.push_back({connection->last_put, connection->puts_in_flight, std::move(done)});
  }
  return {};
}

Status MemoryTransport::send_message(PeerId peer, MessageType type, std::span<const std::byte> body) {
  Connection* connection = find_open(peer);
  if (connection == nullptr) return fail(Error::kUnavailable, "not connected");
  MemoryNetwork::InFlight item;
  item.from = address_.identity.instance;
  item.to = connection->instance;
  item.connection = peer;
  item.type = type;
  item.body.assign(reinterpret_cast<const char*>(body.data()), body.size());
  if (network_.filter_ && !network_.filter_(item.from, item.to, type, body)) return {};
  if (network_.rng_.uniform() < network_.options_.drop_message) return {};
  if (network_.rng_.uniform() < network_.options_.duplicate_message) network_.flight_.push_back(item);
  network_.flight_.push_back(std::move(item));
  return {};
}

void MemoryTransport::put_ended(PeerId peer, uint64_t put_number, const Completion& done,
                                const Status& status) {
  if (done) ready_.emplace_back(done, status);
  Connection& connection = connections_.at(peer);
  connection.puts_in_flight -= 1;
  connection.put_failed |= !status.ok();
  for (auto flush = connection.flushes.begin(); flush != connection.flushes.end();) {
    if (put_number > flush->last_put || --flush->puts_left > 0) {
      ++flush;
      continue;
    }
    ready_.emplace_back(std::move(flush->done), connection.put_failed
                                                    ? Status(fail(Error::kUnavailable, "a lane has failed"))
                                                    : Status());
    flush = connection.flushes.erase(flush);
  }
}

// Completions run with an error although the stores they stood for may still land: that is shared memory. The
// bytes are on their way by then: nobody reads the source any more.
void MemoryTransport::cancel(Connection& connection, const Failure& why) {
  connection.open = false;
  for (MemoryNetwork::InFlight& item : network_.flight_) {
    const bool ours =
        item.from == address_.identity.instance && item.to == connection.instance && item.is_put;
    if (!ours || item.source == nullptr) continue;
    item.body.assign(reinterpret_cast<const char*>(std::exchange(item.source, nullptr)), item.bytes);
    if (item.done) ready_.emplace_back(std::exchange(item.done, {}), why);
  }
  for (Flush& flush : connection.flushes) ready_.emplace_back(std::move(flush.done), why);
  connection.flushes.clear();
}

void MemoryTransport::close(PeerId peer) {
  if (Connection* connection = find_open(peer))
    cancel(*connection, fail(Error::kCancelled, "connection closed"));
}

bool MemoryTransport::may_write(PeerId peer) const {
  const auto found = connections_.find(peer);
  if (found == connections_.end()) return false;
  if (found->second.open) return true;
  return !network_.options_.network_lanes && network_.find(found->second.instance) != nullptr;
}

void MemoryTransport::peer_exited(uint64_t instance) {
  const PeerId peer = connection_to(instance);
  if (peer == PeerId()) return;
  cancel(connections_.at(peer), fail(Error::kUnavailable, "the peer's process has exited"));
  failed_.push_back(peer);
}

bool MemoryTransport::progress() {
  const bool worked = !ready_.empty() || !received_.empty() || !failed_.empty();
  std::vector<PeerId> failed;
  failed.swap(failed_);
  std::vector<std::pair<Completion, Status>> ready;
  ready.swap(ready_);
  for (auto& [done, status] : ready) done(status);
  std::vector<Received> received;
  received.swap(received_);
  for (const Received& message : received) {
    const PeerId peer = connection_to(message.from);
    const MessageHandler& handler = handlers_[static_cast<size_t>(message.type)];
    if (peer != PeerId() && handler) handler(peer, std::as_bytes(std::span(message.body)));
  }
  for (PeerId peer : failed) {  // their completions were among those of this call
    for (const PeerFailedHandler& listener : listeners_)
      listener(peer, fail(Error::kUnavailable, "the peer's process has exited"));
  }
  return worked;
}

MemoryNetwork::MemoryNetwork(const MemoryNetworkOptions& options) : options_(options), rng_(options.seed) {}
MemoryNetwork::~MemoryNetwork() { CHECK(transports_.empty()); }

std::unique_ptr<Transport> MemoryNetwork::make_transport() {
  auto transport = std::make_unique<MemoryTransport>(*this, ++last_instance_);
  transports_[last_instance_] = transport.get();
  return transport;
}

MemoryTransport* MemoryNetwork::find(uint64_t instance) {
  const auto found = transports_.find(instance);
  return found == transports_.end() ? nullptr : found->second;
}

void MemoryNetwork::stop(uint64_t instance) { stopped_[instance] = true; }
void MemoryNetwork::resume(uint64_t instance) { stopped_.erase(instance); }

void MemoryNetwork::kill(uint64_t instance) {
  if (transports_.erase(instance) == 0) return;
  std::erase_if(flight_, [&](const InFlight& item) { return item.from == instance && item.is_put; });
  for (auto& [other, transport] : transports_) transport->peer_exited(instance);
}

// Messages of one pair keep their order unless asked otherwise; puts never do.
bool MemoryNetwork::can_land(size_t index) const {
  const InFlight& item = flight_[index];
  if (stopped_.contains(item.from)) return false;
  if (item.is_put || options_.reorder_messages) return true;
  return std::none_of(flight_.begin(), flight_.begin() + static_cast<std::ptrdiff_t>(index),
                      [&](const InFlight& earlier) {
                        return !earlier.is_put && earlier.from == item.from && earlier.to == item.to;
                      });
}

bool MemoryNetwork::deliver() {
  std::vector<size_t> possible;
  for (size_t i = 0; i < flight_.size(); ++i) {
    if (can_land(i)) possible.push_back(i);
  }
  if (possible.empty()) return false;
  const size_t chosen = possible[rng_.below(possible.size())];
  InFlight item = std::move(flight_[chosen]);
  flight_.erase(flight_.begin() + static_cast<std::ptrdiff_t>(chosen));
  land(std::move(item));
  return true;
}

void MemoryNetwork::land(InFlight item) {
  MemoryTransport* from = find(item.from);
  MemoryTransport* to = find(item.to);
  if (!item.is_put) {
    if (to != nullptr) to->received_.push_back({item.from, item.type, std::move(item.body)});
    return;
  }
  if (from == nullptr) return;  // posted by a process that has exited
  Status status;
  const bool refused =
      options_.network_lanes && to != nullptr && !to->accepts(item.from, item.target_connection);
  if (rng_.uniform() < options_.fail_put || refused) {
    status = fail(Error::kUnavailable, "a lane has failed");
  } else if (to != nullptr) {
    const void* source = item.source == nullptr ? static_cast<const void*>(item.body.data()) : item.source;
    std::memcpy(item.target, source, item.bytes);
    puts_landed_ += 1;
    if (rng_.uniform() < options_.flip_byte && item.bytes > 0)
      item.target[rng_.below(item.bytes)] ^= std::byte{0x10};
  }
  // Puts and flushes into a dead peer succeed, as with UCX.
  from->put_ended(item.connection, item.put_number, item.done, status);
}

}  // namespace penstock
