// Row 25: a pair that cannot work is refused when it says hello, with both sides named.
#include "kv_transfer/peer_hello.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace penstock {
namespace {

PeerHello make_hello() {
  PeerHello hello;
  hello.node = "prefill-0";
  hello.incarnation = 11;
  TransportIdentity& identity = hello.address.identity;
  identity.library = "ucx 1.13.1";
  identity.transports = "posix,tcp,self";
  identity.mm_error_handling = true;
  identity.host = "boot-id";
  identity.pid_namespace = 4026531836;
  identity.pid = 321;
  identity.start_ticks = 12345;
  identity.instance = 77;
  hello.address.worker = std::string("\0\1\2worker", 9);
  hello.capability.model = "SmolLM2-135M";
  hello.capability.weight_version = WeightVersion(3);
  hello.capability.layout = {30, 3, 64, 64, KvDtype::kBf16};
  hello.capability.context_max = 8192;
  hello.capability.vocab = 49152;
  hello.probe = {0x7f0000000000, 8u << 20, std::string("key\0x", 5)};
  hello.credits = 256;
  hello.attempt = 3;
  return hello;
}

TEST(PeerHello, TravelsWhole) {
  const PeerHello hello = make_hello();
  const Result<PeerHello> read = decode_hello(encode_hello(hello));
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_EQ(read->address.identity, hello.address.identity);
  EXPECT_EQ(read->address.worker, hello.address.worker);
  EXPECT_EQ(read->capability.layout, hello.capability.layout);
  EXPECT_EQ(read->probe.key, hello.probe.key);
  EXPECT_EQ(read->credits, hello.credits);
  EXPECT_EQ(read->attempt, hello.attempt);
  EXPECT_TRUE(check_hello(hello, *read).ok());
}

TEST(PeerHello, RefusalNamesFieldAndBothSides) {
  const PeerHello ours = make_hello();
  const auto refused = [&](const std::function<void(PeerHello&)>& change, const std::string& word) {
    PeerHello theirs = make_hello();
    theirs.node = "decode-0";
    change(theirs);
    const Status status = check_hello(ours, theirs);
    ASSERT_FALSE(status.ok()) << word;
    EXPECT_EQ(status.code(), Error::kIncompatible);
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("decode-0"), std::string::npos) << status.message();
  };
  refused([](PeerHello& h) { h.address.identity.library = "ucx 1.22.0"; }, "ucx 1.22.0");
  refused([](PeerHello& h) { h.address.identity.transports = "tcp,self"; }, "UCX_TLS");
  refused([](PeerHello& h) { h.address.identity.mm_error_handling = false; }, "UCX_MM_ERROR_HANDLING");
  refused([](PeerHello& h) { h.address.identity.pid_namespace = 1; }, "pid namespaces");
  refused([](PeerHello& h) { h.capability.protocol = 2; }, "protocol");
  refused([](PeerHello& h) { h.capability.model = "other"; }, "model");
  refused([](PeerHello& h) { h.capability.weight_version = WeightVersion(4); }, "weight version");
  refused([](PeerHello& h) { h.capability.layout.kv_heads = 6; }, "KV layout");
  refused([](PeerHello& h) { h.capability.layout.dtype = KvDtype::kF32; }, "KV layout");
  refused([](PeerHello& h) { h.capability.tensor_parallel = 2; }, "tensor parallel");
  refused([](PeerHello& h) { h.capability.context_max = 1; }, "context_max");
}

TEST(PeerHello, DamagedBytesAreAnError) {
  const std::string good = encode_hello(make_hello());
  EXPECT_FALSE(decode_hello("").ok());
  EXPECT_FALSE(decode_hello(good.substr(0, good.size() / 2)).ok());
  Rng rng(3);
  for (int i = 0; i < 3000; ++i) {  // never a crash; under asan, never a stray read
    std::string bad = good;
    for (int flips = 0; flips < 4; ++flips)
      bad[rng.below(bad.size())] ^= static_cast<char>(1u << rng.below(8));
    static_cast<void>(decode_hello(bad));
  }
}

}  // namespace
}  // namespace penstock
