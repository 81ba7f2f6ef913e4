#include "wire/control.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/rng.h"

namespace penstock::wire {
namespace {

RegisterT a_register() {
  RegisterT message;
  message.name = "prefill-0";
  message.role = Role::Prefill;
  message.protocol = kProtocolVersion;
  message.capability = std::make_unique<CapabilityT>();
  message.capability->model = "tiny";
  message.capability->kv_dtype = "bf16";
  message.capacity = std::make_unique<CapacityT>();
  message.capacity->pool_blocks = 100;
  message.peer_address = "tcp://127.0.0.1:1";
  message.incarnation = 7;
  return message;
}

FrameT a_frame() {
  FrameT message;
  message.frame_no = 3;
  message.load = std::make_unique<LoadT>();
  message.load->free_blocks = 42;
  auto token = std::make_unique<TokenT>();
  token->sequence = 9;
  token->epoch = 2;
  token->position = 17;
  token->token = 5;
  token->logprob = -0.5f;
  token->top.emplace_back(5, -0.5f);
  token->end_reason = EndReason::Length;
  message.tokens.push_back(std::move(token));
  EventUnion done;
  HandoffDoneT handoff;
  handoff.bytes = 1234;
  done.Set(std::move(handoff));
  message.events.push_back(std::move(done));
  return message;
}

StartT a_start() {
  StartT message;
  message.sequence = 9;
  message.ids = {1, 2, 3};
  message.prompt_tokens = 3;
  message.sampling = std::make_unique<SamplingT>();
  return message;
}

TEST(ControlTest, RoundTripKeepsEveryField) {
  const auto decoded = decode_control(encode_control(control_of(a_frame())));
  ASSERT_TRUE(decoded.ok()) << decoded.message();
  const FrameT& frame = *(*decoded)->body.AsFrame();
  EXPECT_EQ(frame.frame_no, 3u);
  EXPECT_EQ(frame.load->free_blocks, 42u);
  ASSERT_EQ(frame.tokens.size(), 1u);
  EXPECT_EQ(frame.tokens[0]->sequence, 9u);
  EXPECT_EQ(frame.tokens[0]->position, 17u);
  EXPECT_EQ(frame.tokens[0]->top.at(0).token(), 5);
  EXPECT_EQ(frame.tokens[0]->end_reason, EndReason::Length);
  ASSERT_NE(frame.events.at(0).AsHandoffDone(), nullptr);
  EXPECT_EQ(frame.events.at(0).AsHandoffDone()->bytes, 1234u);
}

TEST(ControlTest, EveryBodyRoundTrips) {
  EXPECT_TRUE(decode_control(encode_control(control_of(a_register()))).ok());
  EXPECT_TRUE(decode_control(encode_control(control_of(a_start()))).ok());
  EXPECT_TRUE(decode_control(encode_control(control_of(RegisteredT()))).ok());
  EXPECT_TRUE(decode_control(encode_control(control_of(PeersT()))).ok());
  EXPECT_TRUE(decode_control(encode_control(control_of(AbortT()))).ok());
  EXPECT_TRUE(decode_control(encode_control(control_of(HeartbeatT()))).ok());
  EXPECT_TRUE(decode_control(encode_control(control_of(DrainT()))).ok());
}

struct Malformed {
  const char* what;
  std::function<std::string()> bytes;
};

template <typename Body, typename Change>
std::function<std::string()> changed(Body (*make)(), Change change) {
  return [make, change] {
    Body body = make();
    change(body);
    return encode_control(control_of(std::move(body)));
  };
}

TEST(ControlTest, MalformedMessagesAreRefusedWithAReason) {
  const Malformed cases[] = {
      {"nothing", [] { return std::string(); }},
      {"four bytes", [] { return std::string("\x04\0\0\0", 4); }},
      {"another identifier", [] { return std::string(64, 'x'); }},
      {"no body", [] { return encode_control(ControlT()); }},
      {"half a message",
       [] {
         const std::string whole = encode_control(control_of(a_frame()));
         return whole.substr(0, whole.size() / 2);
       }},
      {"unknown role", changed(a_register, [](RegisterT& m) { m.role = static_cast<Role>(9); })},
      {"no name", changed(a_register, [](RegisterT& m) { m.name.clear(); })},
      {"long name", changed(a_register, [](RegisterT& m) { m.name.assign(kNameBytesMax + 1, 'n'); })},
      {"no capacity", changed(a_register, [](RegisterT& m) { m.capacity.reset(); })},
      {"speed is no number", changed(a_register, [](RegisterT& m) { m.capacity->prefill_toks = NAN; })},
      {"no load", changed(a_frame, [](FrameT& m) { m.load.reset(); })},
      {"unknown end reason",
       changed(a_frame, [](FrameT& m) { m.tokens[0]->end_reason = static_cast<EndReason>(77); })},
      {"too many tokens", changed(a_frame,
                                  [](FrameT& m) {
                                    for (size_t i = 0; i <= kFrameItemsMax; ++i)
                                      m.tokens.push_back(std::make_unique<TokenT>());
                                  })},
      {"prompt longer than ids", changed(a_start, [](StartT& m) { m.prompt_tokens = 4; })},
      {"no ids", changed(a_start, [](StartT& m) { m.ids.clear(); })},
      {"no sampling", changed(a_start, [](StartT& m) { m.sampling.reset(); })},
  };
  for (const Malformed& c : cases) {
    const auto decoded = decode_control(c.bytes());
    ASSERT_FALSE(decoded.ok()) << c.what;
    EXPECT_EQ(decoded.code(), Error::kCorrupt) << c.what;
    EXPECT_FALSE(decoded.message().empty()) << c.what;
  }
}

// Whatever a peer sends, decoding ends with a message or a reason; asan watches the reads.
TEST(ControlTest, MutatedMessagesNeverHurt) {
  constexpr uint64_t kSeed = 20240611;
  constexpr int kRounds = 20000;
  Rng rng(kSeed);
  const std::string originals[] = {encode_control(control_of(a_register())),
                                   encode_control(control_of(a_frame())),
                                   encode_control(control_of(a_start()))};
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::string bytes = originals[rng.below(3)];
    const uint64_t changes = 1 + rng.below(4);
    for (uint64_t i = 0; i < changes; ++i) bytes[rng.below(bytes.size())] = static_cast<char>(rng());
    if (rng.below(8) == 0) bytes.resize(rng.below(bytes.size() + 1));
    accepted += decode_control(bytes).ok();
  }
  // Some changes hit plain values and are fine; most that hit structure are not.
  EXPECT_GT(accepted, 0) << "seed " << kSeed;
  EXPECT_LT(accepted, kRounds) << "seed " << kSeed;
}

}  // namespace
}  // namespace penstock::wire
