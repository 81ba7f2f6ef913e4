#include "kv_transfer/peer_hello.h"

#include "wire/schemas/peer_generated.h"

namespace penstock {
namespace {

namespace msg = wire::peer;

constexpr size_t kBytesMax = 1u << 20;

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

msg::IdentityT pack(const TransportIdentity& identity) {
  msg::IdentityT packed;
  packed.library = identity.library;
  packed.transports = identity.transports;
  packed.mm_error_handling = identity.mm_error_handling;
  packed.host = identity.host;
  packed.pid_namespace = identity.pid_namespace;
  packed.pid = identity.pid;
  packed.start_ticks = identity.start_ticks;
  packed.instance = identity.instance;
  return packed;
}

TransportIdentity unpack(const msg::IdentityT& packed) {
  TransportIdentity identity;
  identity.library = packed.library;
  identity.transports = packed.transports;
  identity.mm_error_handling = packed.mm_error_handling;
  identity.host = packed.host;
  identity.pid_namespace = packed.pid_namespace;
  identity.pid = packed.pid;
  identity.start_ticks = packed.start_ticks;
  identity.instance = packed.instance;
  return identity;
}

msg::CapabilityT pack(const HandoffCapability& capability) {
  msg::CapabilityT packed;
  packed.protocol = capability.protocol;
  packed.model = capability.model;
  packed.weight_version = capability.weight_version.value();
  packed.layers = capability.layout.layers;
  packed.kv_heads = capability.layout.kv_heads;
  packed.head_dim = capability.layout.head_dim;
  packed.block_tokens = capability.layout.block_tokens;
  packed.kv_dtype = static_cast<uint8_t>(capability.layout.dtype);
  packed.tensor_parallel = capability.tensor_parallel;
  packed.pipeline_parallel = capability.pipeline_parallel;
  packed.context_max = capability.context_max;
  packed.vocab = capability.vocab;
  return packed;
}

HandoffCapability unpack(const msg::CapabilityT& packed) {
  HandoffCapability capability;
  capability.protocol = packed.protocol;
  capability.model = packed.model;
  capability.weight_version = WeightVersion(packed.weight_version);
  capability.layout = {packed.layers, packed.kv_heads, packed.head_dim, packed.block_tokens,
                       static_cast<KvDtype>(packed.kv_dtype)};
  capability.tensor_parallel = packed.tensor_parallel;
  capability.pipeline_parallel = packed.pipeline_parallel;
  capability.context_max = packed.context_max;
  capability.vocab = packed.vocab;
  return capability;
}

std::unique_ptr<msg::MemoryT> pack(const MemoryDescriptor& memory) {
  auto packed = std::make_unique<msg::MemoryT>();
  packed->base = memory.base;
  packed->bytes = memory.bytes;
  packed->key = bytes_of(memory.key);
  return packed;
}

MemoryDescriptor unpack(const msg::MemoryT& packed) {
  return {packed.base, packed.bytes, text_of(packed.key)};
}

}  // namespace

std::string encode_hello(const PeerHello& hello) {
  msg::HelloT packed;
  packed.node = hello.node;
  packed.incarnation = hello.incarnation;
  packed.identity = std::make_unique<msg::IdentityT>(pack(hello.address.identity));
  packed.worker = bytes_of(hello.address.worker);
  packed.capability = std::make_unique<msg::CapabilityT>(pack(hello.capability));
  packed.probe = pack(hello.probe);
  packed.pool = pack(hello.pool);
  packed.credits = hello.credits;
  packed.refusal = hello.refusal;
  packed.attempt = hello.attempt;
  flatbuffers::FlatBufferBuilder builder(1024);
  msg::FinishHelloBuffer(builder, msg::Hello::Pack(builder, &packed));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

Result<PeerHello> decode_hello(std::string_view bytes) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (bytes.size() < 8 || bytes.size() > kBytesMax)
    return fail(Error::kCorrupt, "peer hello of " + std::to_string(bytes.size()) + " bytes");
  flatbuffers::Verifier verifier(data, bytes.size());
  if (!msg::VerifyHelloBuffer(verifier)) return fail(Error::kCorrupt, "malformed peer hello");
  msg::HelloT packed;
  msg::GetHello(data)->UnPackTo(&packed);
  if (!packed.identity || !packed.capability || !packed.probe || !packed.pool ||
      packed.capability->kv_dtype > 1)
    return fail(Error::kCorrupt, "peer hello lacks identity, capability or memory");
  PeerHello hello;
  hello.node = packed.node;
  hello.incarnation = packed.incarnation;
  hello.address = {unpack(*packed.identity), text_of(packed.worker)};
  hello.capability = unpack(*packed.capability);
  hello.probe = unpack(*packed.probe);
  hello.pool = unpack(*packed.pool);
  hello.credits = packed.credits;
  hello.refusal = packed.refusal;
  hello.attempt = packed.attempt;
  return hello;
}

Status check_hello(const PeerHello& ours, const PeerHello& theirs) {
  const std::string pair = ours.node + " (here) and " + theirs.node;
  RETURN_IF_ERROR(check_compatible(ours.address.identity, theirs.address.identity).with_context(pair));
  return check_capability(ours.capability, theirs.capability).with_context(pair);
}

}  // namespace penstock
