#include "wire/socket_zmq.h"

#include <cerrno>

#include "wire/zap_zmq.h"

namespace penstock::wire {
namespace {

std::string zmq_reason() { return zmq_strerror(zmq_errno()); }

// Bytes still unsent when a socket closes get this long; a Drain or Abort at exit should arrive.
constexpr int kLingerMs = 200;

}  // namespace

Context::Context() : handle_(zmq_ctx_new()) { CHECK(handle_ != nullptr); }
Context::~Context() {
  zmq_ctx_shutdown(handle_);  // ends the thread of zap_
  zap_.reset();
  zmq_ctx_term(handle_);
}

ZapServer& Context::zap() {
  if (zap_ == nullptr) zap_ = std::make_unique<ZapServer>(handle_);
  return *zap_;
}

Result<std::unique_ptr<ZmqSocket>> ZmqSocket::open(Context& context, int type, const std::string& identity,
                                                   const ChannelOptions& options) {
  void* handle = zmq_socket(context.handle(), type);
  if (handle == nullptr) return fail(Error::kResourceExhausted, "zmq_socket: " + zmq_reason());
  std::unique_ptr<ZmqSocket> socket(new ZmqSocket(context, handle));
  const bool server = type == ZMQ_ROUTER;
  RETURN_IF_ERROR(socket->set(ZMQ_LINGER, kLingerMs, "ZMQ_LINGER"));
  RETURN_IF_ERROR(socket->set(ZMQ_SNDHWM, options.queue_len_max, "ZMQ_SNDHWM"));
  RETURN_IF_ERROR(socket->set(ZMQ_RCVHWM, options.queue_len_max, "ZMQ_RCVHWM"));
  const auto bytes_max = static_cast<int64_t>(options.frame_bytes_max);
  if (zmq_setsockopt(handle, ZMQ_MAXMSGSIZE, &bytes_max, sizeof(bytes_max)) != 0)
    return fail(Error::kInternal, "ZMQ_MAXMSGSIZE: " + zmq_reason());
  if (server) {
    // A peer that is gone is an error and not silence; a peer that comes back takes its name over.
    RETURN_IF_ERROR(socket->set(ZMQ_ROUTER_MANDATORY, 1, "ZMQ_ROUTER_MANDATORY"));
    RETURN_IF_ERROR(socket->set(ZMQ_ROUTER_HANDOVER, 1, "ZMQ_ROUTER_HANDOVER"));
  } else {
    RETURN_IF_ERROR(socket->set(ZMQ_ROUTING_ID, identity, "ZMQ_ROUTING_ID"));
    // Nothing is queued for a peer that is not connected: it would arrive in another life of the peer.
    RETURN_IF_ERROR(socket->set(ZMQ_IMMEDIATE, 1, "ZMQ_IMMEDIATE"));
    RETURN_IF_ERROR(
        socket->set(ZMQ_RECONNECT_IVL, static_cast<int>(options.reconnect.ms()), "ZMQ_RECONNECT_IVL"));
    RETURN_IF_ERROR(socket->set(ZMQ_RECONNECT_IVL_MAX, static_cast<int>(options.reconnect_max.ms()),
                                "ZMQ_RECONNECT_IVL_MAX"));
  }
  if (options.curve.enabled()) RETURN_IF_ERROR(socket->set_curve(options.curve, server));
  ASSIGN_OR_RETURN(socket->handshakes_,
                   HandshakeMonitor::attach(context.handle(), handle, server, options.curve.enabled()));
  size_t size = sizeof(socket->fd_);
  if (zmq_getsockopt(handle, ZMQ_FD, &socket->fd_, &size) != 0)
    return fail(Error::kInternal, "ZMQ_FD: " + zmq_reason());
  return socket;
}

ZmqSocket::~ZmqSocket() {
  handshakes_.reset();
  if (!zap_domain_.empty()) context_.zap().forget(zap_domain_);
  zmq_close(handle_);
}

std::vector<std::string> ZmqSocket::take_refused() {
  std::vector<std::string> refused = handshakes_->poll();
  if (zap_domain_.empty()) return refused;
  for (std::string& reason : context_.zap().take_refused(zap_domain_)) refused.push_back(std::move(reason));
  return refused;
}

Result<std::string> ZmqSocket::bind(const std::string& endpoint) {
  if (zmq_bind(handle_, endpoint.c_str()) != 0)
    return fail(Error::kIo, "cannot listen on " + endpoint + ": " + zmq_reason());
  char text[256];
  size_t size = sizeof(text);
  if (zmq_getsockopt(handle_, ZMQ_LAST_ENDPOINT, text, &size) != 0)
    return fail(Error::kInternal, "ZMQ_LAST_ENDPOINT: " + zmq_reason());
  return std::string(text);
}

Status ZmqSocket::connect(const std::string& endpoint) {
  if (zmq_connect(handle_, endpoint.c_str()) != 0)
    return fail(Error::kInvalidArgument, "cannot dial " + endpoint + ": " + zmq_reason());
  return {};
}

void ZmqSocket::discard_queued() {
  const int none = 0;
  zmq_setsockopt(handle_, ZMQ_LINGER, &none, sizeof(none));
}

ZmqSocket::Received ZmqSocket::receive(std::string* parts, int count) {
  int seen = 0;
  bool more = true, good = true;
  while (more) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    const int size = zmq_msg_recv(&part, handle_, ZMQ_DONTWAIT);
    if (size < 0) {
      const int error = zmq_errno();
      zmq_msg_close(&part);
      if (error == EINTR) continue;
      // The parts of one message arrive together: EAGAIN can come before the first only.
      return seen == 0 ? Received::kNothing : Received::kBadParts;
    }
    more = zmq_msg_more(&part) != 0;
    if (seen < count) {
      parts[seen].assign(static_cast<const char*>(zmq_msg_data(&part)), static_cast<size_t>(size));
    } else {
      good = false;
    }
    ++seen;
    zmq_msg_close(&part);
  }
  return good && seen == count ? Received::kMessage : Received::kBadParts;
}

Status ZmqSocket::send(const std::string_view* parts, int count) {
  for (int i = 0; i < count; ++i) {
    const int flags = ZMQ_DONTWAIT | (i + 1 < count ? ZMQ_SNDMORE : 0);
    while (zmq_send(handle_, parts[i].data(), parts[i].size(), flags) < 0) {
      const int error = zmq_errno();
      if (error == EINTR) continue;
      if (error == EHOSTUNREACH) return fail(Error::kUnavailable, "peer is not connected");
      if (error == EAGAIN) return fail(Error::kResourceExhausted, "no connection, or its send queue is full");
      return fail(Error::kIo, "zmq_send: " + zmq_reason());
    }
  }
  return {};
}

Status ZmqSocket::set(int option, int value, const char* name) {
  if (zmq_setsockopt(handle_, option, &value, sizeof(value)) != 0)
    return fail(Error::kInvalidArgument, std::string(name) + ": " + zmq_reason());
  return {};
}

Status ZmqSocket::set(int option, const std::string& value, const char* name) {
  if (zmq_setsockopt(handle_, option, value.data(), value.size()) != 0)
    return fail(Error::kInvalidArgument, std::string(name) + ": " + zmq_reason());
  return {};
}

Status ZmqSocket::set_curve(const CurveKeys& keys, bool server) {
  constexpr size_t kZ85Chars = 40;
  if (zmq_has("curve") == 0)
    return fail(Error::kUnsupported, "[curve] keys are set, but this libzmq was built without CURVE");
  if (keys.secret_key.size() != kZ85Chars || keys.public_key.size() != kZ85Chars)
    return fail(Error::kInvalidArgument, "[curve] public_key and secret_key: 40 characters of Z85 each");
  RETURN_IF_ERROR(set(ZMQ_CURVE_SECRETKEY, keys.secret_key, "[curve] secret_key"));
  RETURN_IF_ERROR(set(ZMQ_CURVE_PUBLICKEY, keys.public_key, "[curve] public_key"));
  if (server) {
    if (keys.client_key.size() != kZ85Chars)
      return fail(Error::kInvalidArgument, "[curve] client_key: 40 characters of Z85");
    zap_domain_ = std::to_string(reinterpret_cast<uintptr_t>(handle_));
    context_.zap().allow(zap_domain_, keys.client_key);
    RETURN_IF_ERROR(set(ZMQ_ZAP_DOMAIN, zap_domain_, "ZMQ_ZAP_DOMAIN"));
    return set(ZMQ_CURVE_SERVER, 1, "ZMQ_CURVE_SERVER");
  }
  if (keys.server_key.size() != kZ85Chars)
    return fail(Error::kInvalidArgument, "[curve] server_key: 40 characters of Z85");
  return set(ZMQ_CURVE_SERVERKEY, keys.server_key, "[curve] server_key");
}

}  // namespace penstock::wire
