#include "wire/zap_zmq.h"

#include <zmq.h>

#include <cerrno>
#include <string_view>

#include "base/check.h"

namespace penstock::wire {
namespace {

constexpr const char* kEndpoint = "inproc://zeromq.zap.01";
constexpr size_t kRefusedKept = 64;
constexpr size_t kKeyBytes = 32, kZ85Chars = 40;

// A request's frames, in the order of the RFC.
enum Frame : size_t { kVersion, kRequestId, kDomain, kAddress, kIdentity, kMechanism, kCredentials };

// One whole message; empty when the context has been shut down.
std::vector<std::string> receive(void* socket) {
  std::vector<std::string> frames;
  bool more = true;
  while (more) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    const int size = zmq_msg_recv(&part, socket, 0);
    if (size < 0) {
      const int error = zmq_errno();
      zmq_msg_close(&part);
      if (error == EINTR) continue;
      return {};
    }
    frames.emplace_back(static_cast<const char*>(zmq_msg_data(&part)), static_cast<size_t>(size));
    more = zmq_msg_more(&part) != 0;
    zmq_msg_close(&part);
  }
  return frames;
}

std::string z85_of(const std::string& key) {
  char text[kZ85Chars + 1];
  if (key.size() != kKeyBytes ||
      zmq_z85_encode(text, reinterpret_cast<const uint8_t*>(key.data()), kKeyBytes) == nullptr)
    return "";
  return text;
}

}  // namespace

ZapServer::ZapServer(void* context) {
  void* socket = zmq_socket(context, ZMQ_REP);
  CHECK(socket != nullptr);
  CHECK_EQ(zmq_bind(socket, kEndpoint), 0);  // before the first server, which asks from then on
  thread_ = std::thread([this, socket] { run(socket); });
}

ZapServer::~ZapServer() { thread_.join(); }

void ZapServer::allow(const std::string& domain, const std::string& client_key) {
  const std::lock_guard lock(mutex_);
  domains_[domain].client_key = client_key;
}

void ZapServer::forget(const std::string& domain) {
  const std::lock_guard lock(mutex_);
  domains_.erase(domain);
}

std::vector<std::string> ZapServer::take_refused(const std::string& domain) {
  const std::lock_guard lock(mutex_);
  const auto found = domains_.find(domain);
  return found == domains_.end() ? std::vector<std::string>{} : std::exchange(found->second.refused, {});
}

void ZapServer::run(void* socket) {
  for (auto frames = receive(socket); !frames.empty(); frames = receive(socket)) {
    const bool known = frames.size() > kCredentials;
    const bool ok =
        known && accept(frames[kDomain], frames[kAddress], frames[kMechanism], frames[kCredentials]);
    const std::string_view reply[] = {"1.0",
                                      known ? std::string_view(frames[kRequestId]) : "",
                                      ok ? "200" : "400",
                                      ok ? "OK" : "not a key of this cluster",
                                      "",
                                      ""};
    for (size_t i = 0; i < std::size(reply); ++i)
      zmq_send(socket, reply[i].data(), reply[i].size(), i + 1 < std::size(reply) ? ZMQ_SNDMORE : 0);
  }
  zmq_close(socket);
}

bool ZapServer::accept(const std::string& domain, const std::string& address, const std::string& mechanism,
                       const std::string& credentials) {
  const std::lock_guard lock(mutex_);
  const auto found = domains_.find(domain);
  if (found == domains_.end() || mechanism != "CURVE") return false;
  const std::string key = z85_of(credentials);
  if (key == found->second.client_key) return true;
  auto& refused = found->second.refused;
  if (refused.size() == kRefusedKept) refused.erase(refused.begin());
  refused.push_back("a client at " + address + " has the key " + key +
                    ", which is not [curve] node_public_key: give it the keys of this cluster");
  return false;
}

}  // namespace penstock::wire
