#include "wire/handshake_zmq.h"

#include <zmq.h>

#include <cstdint>
#include <cstring>

namespace penstock::wire {
namespace {

constexpr int kFailures = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                          ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

struct Event {
  int kind = 0;
  uint32_t value = 0;
};

// False when there is none.
bool next_event(void* events, Event& event) {
  zmq_msg_t part;
  zmq_msg_init(&part);
  if (zmq_msg_recv(&part, events, ZMQ_DONTWAIT) < 0) {
    zmq_msg_close(&part);
    return false;
  }
  // The first frame: 16 bits of kind and 32 of value, not aligned. The second is the address.
  uint16_t kind = 0;
  if (zmq_msg_size(&part) >= sizeof(kind) + sizeof(event.value)) {
    const char* data = static_cast<const char*>(zmq_msg_data(&part));
    std::memcpy(&kind, data, sizeof(kind));
    std::memcpy(&event.value, data + sizeof(kind), sizeof(event.value));
  }
  event.kind = kind;
  while (zmq_msg_more(&part) != 0) zmq_msg_recv(&part, events, 0);
  zmq_msg_close(&part);
  return true;
}

std::string server_failure(const Event& event, bool has_curve) {
  if (event.kind == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) return "";  // ZAP says more
  if (event.kind == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL) {
    // Which side sees the mismatch first is a race; without CURVE nobody who only connects is worth a word.
    return has_curve
               ? "a connection ended during the CURVE handshake: a node without the four keys of [curve], as "
                 "here, or something else that tries this port"
               : "";
  }
  if (event.value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH) {
    return has_curve
               ? "a client without CURVE keys: set the four keys of [curve] in its cluster file, as here"
               : "a client wants CURVE, which is off here: set the four keys of [curve] here too";
  }
  if (!has_curve) return "a client that does not speak ZeroMQ as penstock does";
  return "a client expects another public key here: give it the [curve] keys of this cluster";
}

std::string client_failure(const Event& event, bool has_curve) {
  if (event.kind == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
    return "our CURVE key is refused there: [curve] node_public_key must be the same on both sides";
  if (event.kind == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL &&
      event.value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH) {
    return has_curve
               ? "CURVE is off there and on here: set the four keys of [curve] on both sides or on neither"
               : "CURVE is on there and off here: set the four keys of [curve], as there";
  }
  return has_curve
             ? "the connection is closed during the CURVE handshake: is [curve] router_public_key right?"
             : "what listens there closes the connection: is it a penstock router?";
}

}  // namespace

Result<std::unique_ptr<HandshakeMonitor>> HandshakeMonitor::attach(void* context, void* socket,
                                                                   bool is_server, bool has_curve) {
  std::unique_ptr<HandshakeMonitor> monitor(new HandshakeMonitor(socket, is_server, has_curve));
  const std::string endpoint = "inproc://handshakes-" + std::to_string(reinterpret_cast<uintptr_t>(socket));
  if (zmq_socket_monitor(socket, endpoint.c_str(), kFailures | ZMQ_EVENT_HANDSHAKE_SUCCEEDED) != 0)
    return fail(Error::kInternal, std::string("zmq_socket_monitor: ") + zmq_strerror(zmq_errno()));
  monitor->events_ = zmq_socket(context, ZMQ_PAIR);
  if (monitor->events_ == nullptr || zmq_connect(monitor->events_, endpoint.c_str()) != 0)
    return fail(Error::kInternal, std::string("handshake monitor: ") + zmq_strerror(zmq_errno()));
  return monitor;
}

HandshakeMonitor::~HandshakeMonitor() {
  zmq_socket_monitor(socket_, nullptr, 0);
  if (events_ != nullptr) zmq_close(events_);
}

std::vector<std::string> HandshakeMonitor::poll() {
  std::vector<std::string> failures;
  for (Event event; next_event(events_, event);) {
    if ((event.kind & kFailures) == 0) {
      last_failure_.clear();
      continue;
    }
    std::string failure = is_server_ ? server_failure(event, has_curve_) : client_failure(event, has_curve_);
    if (failure.empty()) continue;
    last_failure_ = failure;
    failures.push_back(std::move(failure));
  }
  return failures;
}

}  // namespace penstock::wire
